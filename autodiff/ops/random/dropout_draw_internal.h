// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/random/dropout_draw.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// The next draw of `path` in the pass that runs, for an op whose input x has one leading extent a
// row; p = 0 outside of training. Throws ConfigError unless 0 <= p < 1, GradientError where x has
// not the pass's rows.
DropoutDraw next_dropout(const char* op, const Tensor& x, double p, std::uint64_t path);

}  // namespace belfry
