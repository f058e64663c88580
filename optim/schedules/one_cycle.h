// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/optim/schedule.h"

namespace belfry {

struct OneCycleOptions {
  double rise = 0.3;    // share of `over` that rises
  double start = 0.04;  // first rate, as a fraction of the base rate
  double end = 4e-6;    // last one
};

// Half a cosine from `start` up to the base rate and another down to `end`, within `over`, then the
// end: Smith and Topin, "Super-convergence", 2018, with PyTorch's fractions, but that the last
// update of `over` is not the end itself. Throws ConfigError for a value out of range.
LearningRate one_cycle(double base, std::string over, const OneCycleOptions& o = {});

}  // namespace belfry
