// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "belfry/autodiff/loss.h"

namespace belfry {

// What one update did; values are over all towers.
struct Report {
  std::int64_t update = 0;  // its number, from 1
  std::int64_t rows = 0;
  std::int64_t epoch = 0;  // of its rows, from 0
  double lr = 0;
  double weight = 0;     // sum of the units' loss weights
  double mean_loss = 0;  // weighted mean, the l2 term included
  double norm = 0;  // of the mean gradient before clipping; 0 without guard, clip, l2, statistics
  double clip = 1;  // factor the global-norm clip applied
  double mean_norm2 = 0, unit_norm2 = 0;  // T and L, with statistics
  std::int64_t units = 0;
  std::map<std::string, double> metrics;  // Step::report: sum over sum of weights
  std::vector<std::string> skipped;       // variables without a gradient on any tower
  bool stop = false;  // request_stop() was called on some rank: on all, this update is the last
  // Wall time, seconds. Averages over towers: `exposed` is from the end of a tower's own backward
  // pass to the start of its update: waiting, exchange and fold that nothing hid.
  double seconds = 0, forward_backward = 0, exposed = 0, update_seconds = 0, data_wait = 0;

  double loss() const { return mean_loss; }
};

struct EvalReport {
  std::int64_t rows = 0;
  double loss = 0;  // weighted mean
  double weight = 0;
  double seconds = 0;
  std::map<std::string, double> metrics;
};

// A unit's pass as the user's function sees it.
class Step {
 public:
  // A figure of this unit's rows; averaged over all units and towers by weight.
  void report(const std::string& name, const Metric& metric) { metrics.emplace_back(name, metric); }

  bool training = false;
  std::int64_t update = 0;  // from 1; 0 in evaluation
  int tower = 0;
  std::vector<std::pair<std::string, Metric>> metrics;
};

}  // namespace belfry
