// SPDX-License-Identifier: MIT
// reduce = "fast": NCCL adds the gradients up, in whatever order.
#include <algorithm>
#include <cmath>

#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

bool sums(const Outcome& o) {
  return std::any_of(o.trace.begin(), o.trace.end(), [](const Traced& t) {
    return t.what.rfind("reduce-scatter of rank", 0) == 0 || t.what.rfind("reduce of rank", 0) == 0;
  });
}

}  // namespace

TEST_CASE("fast lets NCCL add up, and follows repeatable to rounding", "[cuda-sim]") {
  int summed = 0, not_summed = 0;
  for (const int towers : {2, 3, 4})
    for (Run run : gpu_runs(towers)) {
      const auto optimizer = run.optimizer;
      if (optimizer().reduce == ReduceMode::strict) continue;
      const bool squares = optimizer().statistics != Statistics::none;
      const Outcome exact = run_on_gpus(run, {.seed = 1});
      REQUIRE(exact.error.empty());
      run.optimizer = [optimizer] {
        Optimizer o = optimizer();
        o.reduce = ReduceMode::fast;
        return o;
      };
      for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
        INFO(run.label << ", " << towers << " towers, seed " << seed);
        const Outcome fast = run_on_gpus(run, {.seed = seed, .trace = true});
        REQUIRE(fast.error == "");
        CHECK(fast.reports == std::vector<std::string>{});
        REQUIRE(fast.losses.size() == exact.losses.size());
        for (std::size_t i = 0; i < exact.losses.size(); ++i)
          CHECK(std::fabs(fast.losses[i] - exact.losses[i]) <= 1e-5 * std::fabs(exact.losses[i]));
        CHECK(sums(fast) == !squares);
        if (squares) CHECK(fast.hash == exact.hash);
        squares ? ++not_summed : ++summed;
      }
    }
  CHECK(summed >= 30);
  CHECK(not_summed >= 3);
}
