// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// The tensors one after the other along `axis` (negative: from the end); their other extents, types
// and devices are equal. f32 or f64. Throws GradientError otherwise, or for none.
Tensor concat(const std::vector<Tensor>& parts, int axis);

}  // namespace belfry
