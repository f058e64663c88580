// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// e^x over its sum along the last axis. f32 or f64, at least one axis. A row with NaN is NaN.
Tensor softmax(const Tensor& x);

}  // namespace belfry
