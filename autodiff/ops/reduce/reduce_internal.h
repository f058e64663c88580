// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"

namespace belfry {

// The mean or sum of x as a new scalar: sum / divisor. Of no elements: 0.
Tensor reduce_all(const Tensor& x, double divisor);
// sum over all elements of (a - b)^2, divided.
Tensor squared_error(const Tensor& a, const Tensor& b, double divisor);
// dx = g / divisor everywhere, g a scalar.
void spread_scalar(const Tensor& g, double divisor, const Tensor& dx);
// A scalar on the device of `like`, of its type.
Tensor scalar_like(const Tensor& like, double value);
// out[c] = sum over r of x[r, c], x seen as [x.size() / out.size(), out.size()]. Sums of more than
// 256 rows go through double: 50,000 rows of a convolution's bias gradient lose nothing.
void column_sum(const char* op, const Tensor& x, const Tensor& out);

// Registry entry of sum and mean.
OpEntry reduction_entry(const char* help, Tensor (*op)(const Tensor&), bool mean);

}  // namespace belfry
