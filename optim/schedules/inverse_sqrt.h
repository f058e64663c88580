// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/optim/schedule.h"

namespace belfry {

// The base rate for `hold`, then base sqrt(hold / k): the fall of Vaswani et al., "Attention is all
// you need", 2017, whose rise is warm_up() of the same length. Throws ConfigError for a value out
// of range.
LearningRate inverse_sqrt(double base, std::string hold);

}  // namespace belfry
