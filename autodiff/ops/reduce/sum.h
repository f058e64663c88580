// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The sum of all elements, a scalar. f32 or f64.
Tensor sum(const Tensor& x);

}  // namespace belfry
