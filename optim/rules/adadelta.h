// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/optim/optimizer.h"

namespace belfry {

struct AdadeltaOptions {
  LearningRate lr = 1.0;
  double rho = 0.9, eps = 1e-6;
};

// Adadelta (Zeiler, 2012), with a rate in front as in PyTorch. Throws ConfigError for a value out
// of range.
Optimizer adadelta(const AdadeltaOptions& o = {});

}  // namespace belfry
