// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/optim/schedule.h"

namespace belfry {

// Warm-up, stable, decay: the base rate for `stable`, then a fall over `decay` to `end`, kept; as a
// straight line, or 1 - sqrt of the part passed (Haegele et al., 2024). The warm-up is warm_up()'s
// and counts as part of `stable`. Throws ConfigError for a value out of range.
LearningRate wsd(double base, std::string stable, std::string decay, double end = 0,
                 std::string shape = "linear");

}  // namespace belfry
