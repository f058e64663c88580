// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The same elements under another shape of equal size: a view, as is its gradient.
Tensor reshape(const Tensor& x, const Shape& shape);

}  // namespace belfry
