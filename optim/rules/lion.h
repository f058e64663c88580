// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/optim/optimizer.h"

namespace belfry {

struct LionOptions {
  LearningRate lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023). Every element moves by
// the whole rate: rates are 3 to 10 times smaller than AdamW's and decays as much larger. Throws
// ConfigError for a value out of range.
Optimizer lion(const LionOptions& o = {});

}  // namespace belfry
