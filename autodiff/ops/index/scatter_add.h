// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/index/duplicates.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// target[indices[k]] += values[k] for each k, in place: target [rows, ...], indices i32 [count],
// values [count, ...], f32 or f64. `duplicates`: reject or sum. Without a gradient: what a recorded
// op has used, or has a gradient itself, is a GradientError, since backward may need the old
// values. An index outside [0, rows) is a DataError with its place, on a GPU only with `reject`,
// which reads the indices there at once; with `sum` a GPU leaves its values out.
void scatter_add(const Tensor& target, const Tensor& indices, const Tensor& values,
                 Duplicates duplicates);

// The same in a copy of x, differentiable in x and values.
Tensor scattered_add(const Tensor& x, const Tensor& indices, const Tensor& values,
                     Duplicates duplicates);

}  // namespace belfry
