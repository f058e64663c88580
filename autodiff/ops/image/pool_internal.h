// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/image/pool.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

// Throws GradientError unless x is [n, h, w, c] of floats and every window meets the image.
PoolShape pool_shape(const char* op, const Tensor& x, PoolOptions options);

// Registry entry of a pool: `combine` turns the window's values inside the image and the window's
// area into the result.
OpEntry pool_entry(const char* help, const char* name, Tensor (*op)(const Tensor&, PoolOptions),
                   double (*combine)(const std::vector<double>& window, double area));

}  // namespace belfry
