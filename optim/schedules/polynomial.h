// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/optim/schedule.h"

namespace belfry {

// base (end + (1 - end) (1 - k / over)^power), the end kept after `over`. Throws ConfigError for a
// value out of range.
LearningRate polynomial(double base, std::string over, double power = 2, double end = 0);

}  // namespace belfry
