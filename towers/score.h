// SPDX-License-Identifier: MIT
#pragma once
#include <limits>
#include <string>

#include "belfry/core/error.h"
#include "belfry/core/schema.h"
#include "belfry/towers/hook.h"

namespace belfry {

// The best value so far of one figure of the validation reports.
struct BestScore {
  std::string metric = "auto";  // "accuracy" where it is reported, else "loss"
  std::string mode = "auto";    // min, max; auto: min for a loss or an error, else max
  double min_delta = 0;         // what counts as better
  double best = std::numeric_limits<double>::quiet_NaN();
  std::string chosen = "accuracy";

  void declare(Schema& schema) {
    schema
        .key("metric", metric,
             {.help = "figure of the validation set: 'loss', 'accuracy' or, with targets, 'mae'; "
                      "auto: accuracy where there is one, else loss"})
        .key("mode", mode,
             {.choices = {"auto", "min", "max"}, .help = "auto: max for accuracy, else min"})
        .key("min_delta", min_delta, {.min = 0, .max = 1e30, .help = "smaller gains do not count"});
  }
  // The figure's name; with auto as the last report had it.
  const std::string& name() const { return metric == "auto" ? chosen : metric; }
  double value(const EvalReport& report) {
    if (metric == "auto") chosen = report.metrics.contains("accuracy") ? "accuracy" : "loss";
    if (name() == "loss") return report.loss;
    const auto found = report.metrics.find(name());
    if (found != report.metrics.end()) return found->second;
    std::string known = "'loss'";
    for (const auto& [name, number] : report.metrics) known += ", '" + name + "'";
    throw ConfigError(ErrorText{.what = "the validation reports have no such metric",
                                .found = "'" + metric + "'",
                                .expected = "one of " + known});
  }
  // Takes a new value; whether it is better than all before. NaN never is.
  bool improve(double now) {
    const bool smaller = mode == "min" || (mode == "auto" && name() != "accuracy");
    const bool first = best != best && now == now;
    if (!first && !(smaller ? now < best - min_delta : now > best + min_delta)) return false;
    best = now;
    return true;
  }
};

}  // namespace belfry
