// SPDX-License-Identifier: MIT
#include "belfry/bench/common/timer.h"

#include <algorithm>

namespace belfry::bench {

double Samples::median() const {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Samples::lowest() const {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double Samples::highest() const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double Samples::spread() const { return median() > 0 ? (highest() - lowest()) / median() : 0; }

Samples ratio(const Samples& a, const Samples& b) {
  Samples out;
  for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i)
    out.add(a.values[i] / b.values[i]);
  return out;
}

double median_seconds(int calls, const std::function<void()>& fn) {
  Samples times;
  for (int i = 0; i < calls; ++i) {
    const Clock::time_point start = Clock::now();
    fn();
    times.add(seconds_since(start));
  }
  return times.median();
}

}  // namespace belfry::bench
