// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/engine.h"

#include "belfry/tests/catch.h"

using namespace belfry;
using namespace belfry::sim;

TEST_CASE("under any order of execution a run gives the bits of the plain one") {
  for (const int towers : {4, 8})
    for (const Run& run : all_runs(towers)) {
      const Outcome want = run_plain(run);
      REQUIRE(want.error.empty());
      for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
        const Outcome got = run_simulated(run, {.seed = seed});
        INFO(run.label << ", " << towers << " towers, seed " << seed);
        CHECK(got.error.empty());
        CHECK(got.reports == std::vector<std::string>{});
        CHECK(got == want);
      }
    }
}
