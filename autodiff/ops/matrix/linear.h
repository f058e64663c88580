// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/activation.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// act(x weight^T + bias): x [..., in], weight [out, in], bias [out] or undefined, giving [...,
// out]. f32 or f64. Throws GradientError when shapes, types or devices do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace belfry
