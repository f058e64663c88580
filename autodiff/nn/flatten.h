// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// [rows, ...] as [rows, rest]: a view. Throws GradientError on a scalar.
Tensor flatten(const Tensor& x);

}  // namespace belfry
