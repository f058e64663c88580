// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// What is said at the start of rows that may be meant otherwise, a line each: numbers so large that
// training from the usual start fails, by the first 256 rows, where `scale` is a key of the data;
// and almost as many classes as rows. `standardize`: that is a key, too, and the better advice.
std::vector<std::string> data_warnings(const Dataset& data, bool scale, bool standardize);

}  // namespace belfry
