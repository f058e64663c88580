// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The mean of all elements, a scalar; 0 when there are none. f32 or f64.
Tensor mean(const Tensor& x);

}  // namespace belfry
