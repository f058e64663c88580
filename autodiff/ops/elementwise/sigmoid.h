// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// 1 / (1 + exp(-x)), elementwise. f32 or f64, any shape.
Tensor sigmoid(const Tensor& x);

}  // namespace belfry
