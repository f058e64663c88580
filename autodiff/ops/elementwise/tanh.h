// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// Hyperbolic tangent, elementwise. f32 or f64, any shape.
Tensor tanh(const Tensor& x);

}  // namespace belfry
