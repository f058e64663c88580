// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/tests/lin.h"

namespace belfry::test {

// A group on `towers` CPU towers with a loader of batches of `batch` rows.
struct EngineRun {
  EngineRun(int towers, int rows, int batch, Optimizer optimizer, bool drop_last = false,
            GroupOptions options = {})
      : context({.towers = "cpu:" + std::to_string(towers), .threads_per_tower = 1, .log = log}),
        loader(context, lin_data(rows),
               {.batch = batch, .epochs = 1000, .shuffle = false, .drop_last = drop_last}),
        group(context, std::move(optimizer), lin(), std::move(options)) {}
  Report step(const LossFn& fn = lin_loss) {
    Batch b;
    loader.next(b);
    return group.step(b, fn);
  }
  double steps(int n) {
    for (int i = 0; i < n; ++i) step();
    return w();
  }
  double w() { return weight_of(group); }

  std::vector<std::string> warnings;
  Log log{[this](LogLevel level, std::string_view text) {
    if (level == LogLevel::warn) warnings.emplace_back(text);
  }};
  Context context;
  Loader loader;
  TowerGroupBase group;
};

}  // namespace belfry::test
