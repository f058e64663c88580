// SPDX-License-Identifier: MIT
// The engine on simulated CPU devices with one thing gone wrong.
#include "belfry/tests/sim/sweep.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

std::vector<Run> of_way(int towers, Way way) {
  std::vector<Run> out;
  for (Run& run : all_runs(towers)) {
    if (run.way != way) continue;
    run.updates = 2;
    out.push_back(run);
  }
  return out;
}

const Simulate kSimulate = [](const Run& run, const SchedulerOptions& options) {
  return run_simulated(run, options);
};

}  // namespace

TEST_CASE("each wait of the engine dropped in turn is reported under every seed") {
  CHECK(drop_waits(of_way(3, Way::collectives), kSimulate) == std::vector<std::string>{});
}

TEST_CASE("each synchronize of the engine dropped in turn is reported under every seed", "[slow]") {
  for (const Way way : {Way::shared, Way::collectives}) {
    std::vector<Run> runs = of_way(3, way);
    // The events of the gather of states order some of what a synchronize orders. Shared variables'
    // layers are measured by whichever tower claims them: one that measures what it has folded
    // itself, or nothing, has written nothing that others read behind the synchronize. Without any
    // of them the first test of engine.cpp fails.
    std::erase_if(runs, [way](const Run& r) {
      return r.norm || (way == Way::shared && r.label.rfind("layer-wise rates", 0) == 0);
    });
    CHECK(drop_syncs(runs, kSimulate) == std::vector<std::string>{});
  }
}

TEST_CASE("each call failed in turn ends in one typed error, never in a hang", "[slow]") {
  FailedCalls all;
  for (const Way way : {Way::shared, Way::replicated, Way::collectives})
    for (const Run& run : of_way(3, way)) fail_calls(run, kSimulate, seeds(5) < 5 ? 17 : 1, all);
  check(all);
}
