// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <functional>
#include <vector>

namespace belfry::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Values of one quantity, one a round.
struct Samples {
  std::vector<double> values;

  void add(double v) { values.push_back(v); }
  double median() const;  // 0 without values
  double lowest() const;
  double highest() const;
  double spread() const;  // (highest - lowest) / median
};

// a[i] / b[i]: ratios within a round, so that a drift of the machine cancels.
Samples ratio(const Samples& a, const Samples& b);

// Median time of one call of fn, over `calls` calls.
double median_seconds(int calls, const std::function<void()>& fn);

}  // namespace belfry::bench
