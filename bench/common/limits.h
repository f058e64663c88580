// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

#include "belfry/device/context.h"

namespace belfry::bench {

// FLOP/s of oneDNN products of 512 x 512 x 512, the size it is best at: the median of `calls`, the
// towers' threads running one each at the same time; summed over the towers.
double best_gemm(Context& context, int calls);

// The averaging's memory traffic without its engine and statistics: plain loops over the same
// amount of memory, cut in one contiguous part a tower.
class AveragingLimit {
 public:
  AveragingLimit(Context& context, std::size_t elements);
  // Sum of the sources written to `mean`; then momentum from it: (N + 1) + 5 arrays move.
  double two_pass_seconds();
  // Both in one loop: N + 2 arrays are read, 2 written.
  double one_pass_seconds();

 private:
  template <class Body>
  double timed(const Body& body);
  Context& context_;
  std::size_t elements_;
  std::vector<std::vector<float>> sources_;
  std::vector<float> mean_, velocity_, param_;
};

}  // namespace belfry::bench
