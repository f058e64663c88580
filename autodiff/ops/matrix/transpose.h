// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// x with its last two axes exchanged, copied: [..., m, n] gives [..., n, m]. f32 or f64.
Tensor transpose(const Tensor& x);

}  // namespace belfry
