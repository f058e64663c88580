// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The mean over all pixels: NHWC images to [n, c]. f32 or f64; at least one pixel.
Tensor global_avg_pool(const Tensor& x);

}  // namespace belfry
