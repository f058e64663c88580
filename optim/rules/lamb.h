// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/optim/optimizer.h"

namespace belfry {

struct LambOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.01;
};

// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
// 2019): Adam's step and the decay as one direction, as long in each variable as the rate times the
// norm of the variable. Throws ConfigError for a value out of range.
Optimizer lamb(const LambOptions& o = {});

}  // namespace belfry
