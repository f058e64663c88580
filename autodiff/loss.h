// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// A loss is a mean and the weight it stands for (valid targets, rows), both device scalars of the
// logits' type, so that averaging over towers cannot confuse means with sums. Weight 0 has mean 0.
struct Loss {
  Tensor mean;
  Tensor weight;
};

// A reported figure: sum over the rows of this pass and their count, both device scalars.
struct Metric {
  Tensor sum;
  Tensor weight;
};

}  // namespace belfry
