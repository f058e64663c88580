// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// a - b, elementwise: b has the shape of a, or is [n] with n the last extent of a, or a scalar.
Tensor sub(const Tensor& a, const Tensor& b);

}  // namespace belfry
