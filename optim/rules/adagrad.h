// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/optim/optimizer.h"

namespace belfry {

struct AdagradOptions {
  LearningRate lr = 1e-2;
  double initial = 0;  // start of the sum of squares
  double eps = 1e-10;
};

// Adagrad (Duchi, Hazan and Singer, 2011) as PyTorch has it. Throws ConfigError for a value out of
// range.
Optimizer adagrad(const AdagradOptions& o = {});

}  // namespace belfry
