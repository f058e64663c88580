// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/index/duplicates.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// target[indices[k]] = values[k] for each k, in place: target [rows, ...], indices i32 [count],
// values [count, ...], f32 or f64. `duplicates`: reject or last. Gradients and wrong indices as
// with scatter_add().
void scatter_update(const Tensor& target, const Tensor& indices, const Tensor& values,
                    Duplicates duplicates);

// The same in a copy of x, differentiable in x and values: what is overwritten gets no gradient.
Tensor scattered_update(const Tensor& x, const Tensor& indices, const Tensor& values,
                        Duplicates duplicates);

}  // namespace belfry
