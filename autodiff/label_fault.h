// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// The first invalid label of a pass, found by a kernel where the host cannot read the labels. In
// device memory; all zeros: none.
struct LabelFault {
  float found = 0;
  std::int32_t label = 0;
  std::int64_t row = 0, classes = 0;
};

[[noreturn]] void throw_label(std::int64_t row, std::int32_t label, std::int64_t classes);

}  // namespace belfry
