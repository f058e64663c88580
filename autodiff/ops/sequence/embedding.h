// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// Rows of table [count, width] by index: i32 [...] to [..., width]. The table's gradient is dense;
// rows of one index are added in the order of the indices, so it is the same on every layout. An
// index outside [0, count) is a DataError with its row, thrown where labels' are.
Tensor embedding(const Tensor& indices, const Tensor& table);

}  // namespace belfry
