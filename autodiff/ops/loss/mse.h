// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The mean over all elements of (prediction - target)^2; the weight is the number of rows (of the
// leading axis; 1 for a scalar). Shapes are equal: nothing is broadcast. No rows: mean 0, weight 0.
Loss mse(const Tensor& prediction, const Tensor& target);

}  // namespace belfry
