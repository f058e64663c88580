// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// What an attention keeps of the positions it has seen, so that the next one costs one position:
// keys and values [rows, positions, width], none before the first. Copies share memory.
struct KeyValues {
  Tensor keys, values;
  std::int64_t positions() const { return keys.defined() ? keys.shape()[1] : 0; }
};

}  // namespace belfry
