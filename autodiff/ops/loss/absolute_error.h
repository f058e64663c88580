// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The sum over all elements of |prediction - target|, weighed by their number: the figure beside
// mse(). Shapes are equal. Not differentiable.
Metric absolute_error(const Tensor& prediction, const Tensor& target);

}  // namespace belfry
