// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/core/host_device.h"

namespace belfry {

// Which labels do not count.
struct LabelFilter {
  std::int32_t ignored;
  bool active;
  BELFRY_HD bool drops(std::int32_t label) const { return active && label == ignored; }
};

}  // namespace belfry
