// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// What is said of rows whose numbers are so large that training from the usual start fails: one
// line for features, one for targets. By the first 256 rows; `standardize` is advice that fits.
std::vector<std::string> size_warnings(const Dataset& data, bool standardize);

}  // namespace belfry
