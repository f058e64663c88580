// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// max(x, 0), elementwise; NaN stays NaN. The gradient at 0 is 0. f32 or f64, any shape.
Tensor relu(const Tensor& x);

}  // namespace belfry
