// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/image/pool.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The largest value of each window of x [n, h, w, c]; padding never wins. Of equal values the first
// gets the gradient. NaN wins.
Tensor max_pool2d(const Tensor& x, PoolOptions options = {});

}  // namespace belfry
