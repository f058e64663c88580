// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/image/pool.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The mean of each window of x [n, h, w, c]; padding counts as zeros, as in PyTorch.
Tensor avg_pool2d(const Tensor& x, PoolOptions options = {});

}  // namespace belfry
