// SPDX-License-Identifier: MIT
// The engine on devices whose memory the host cannot touch and that cannot touch ordinary host
// memory: what GPUs demand, without one.
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/engine.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

const std::vector<std::string> kNothing;

}  // namespace

TEST_CASE("on devices with memory of their own a run gives the bits of the plain one",
          "[separate]") {
  std::uint64_t runs = 0;
  for (const int towers : {1, 3, 8})
    for (const Run& run : all_runs(towers)) {
      const Outcome want = run_plain(run);
      REQUIRE(want.error.empty());
      for (std::uint64_t seed = 1; seed <= seeds(10); ++seed, ++runs) {
        const Outcome got = run_simulated(run, {.seed = seed}, true);
        INFO(run.label << ", " << towers << " towers, seed " << seed);
        CHECK(got.error.empty());
        CHECK(got.reports == kNothing);
        CHECK(got == want);
      }
    }
  WARN(runs << " runs on devices with memory of their own");
}
