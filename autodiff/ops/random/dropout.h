// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// In training, x with each element zeroed with probability p, the rest divided by 1 - p; otherwise
// x itself. The mask is a function of (seed, `path` and how often it has drawn in this pass,
// update, global row, element), so it does not depend on towers or devices; row 0 of x is the
// pass's first row, so x must still have one leading extent a row (GradientError). `path` names the
// caller: name_hash of a module path. Throws ConfigError unless 0 <= p < 1.
Tensor dropout(const Tensor& x, double p, std::uint64_t path);

}  // namespace belfry
