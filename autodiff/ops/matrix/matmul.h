// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The matrix product: a [m, k] and b [k, n] give [m, n]; with a leading batch axis on both,
// [batch, m, k] and [batch, k, n] give [batch, m, n]. f32 or f64.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace belfry
