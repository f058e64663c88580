// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// Elements [first, first + count) along `axis` (negative: from the end). A view where the axis is
// the first, else a copy. f32 or f64. Throws GradientError outside the tensor.
Tensor slice(const Tensor& x, int axis, std::int64_t first, std::int64_t count);

}  // namespace belfry
