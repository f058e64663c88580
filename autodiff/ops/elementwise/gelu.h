// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// x Phi(x) in the tanh form (PyTorch's approximate="tanh"), elementwise. f32 or f64, any shape.
Tensor gelu(const Tensor& x);

}  // namespace belfry
