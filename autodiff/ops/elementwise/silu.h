// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// x sigmoid(x), elementwise ("swish"). f32 or f64, any shape.
Tensor silu(const Tensor& x);

}  // namespace belfry
