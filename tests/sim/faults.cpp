// SPDX-License-Identifier: MIT
// The engine with one thing gone wrong: each wait dropped, each call failed.
#include <map>
#include <set>

#include "belfry/tests/catch.h"
#include "belfry/tests/sim/engine.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

std::vector<Run> of_way(int towers, Way way) {
  std::vector<Run> out;
  for (Run& run : all_runs(towers))
    if (run.way == way) out.push_back(run);
  return out;
}

}  // namespace

namespace {

// What is not reported when the n-th call of a kind on each device is dropped; those that order
// nothing new in this run are left out and counted.
template <class Counts, class Idle, class Drop>
std::vector<std::string> sweep(Way way, const char* kind, Counts counts, Idle idle, Drop drop) {
  std::uint64_t dropped = 0, left_out = 0;
  std::set<std::string> missed;
  for (Run run : of_way(3, way)) {
    run.updates = 2;
    for (std::uint64_t seed = 1; seed <= seeds(3); ++seed) {
      const Outcome whole = run_simulated(run, {.seed = seed});
      for (const auto& [device, n] : counts(whole))
        for (std::uint64_t k = 1; k <= n; ++k) {
          if (idle(whole).count({device, k}) != 0) {
            ++left_out;
            continue;
          }
          ++dropped;
          SchedulerOptions options{.seed = seed};
          drop(options) = {device, k};
          const Outcome out = run_simulated(run, options);
          if (out.reports.empty() && out.error.empty())
            missed.insert(run.label + ": " + kind + " " + std::to_string(k) + " of tower " +
                          std::to_string(device));
        }
    }
  }
  WARN("of the kind '" << kind << "' " << dropped << " dropped in turn under " << seeds(3)
                       << " seeds, not reported: " << missed.size() << "; " << left_out
                       << " that order nothing new left out");
  CHECK(dropped > 0);
  return {missed.begin(), missed.end()};
}

}  // namespace

TEST_CASE("each wait of the engine dropped in turn is reported under every seed") {
  CHECK(sweep(
            Way::collectives, "wait", [](const Outcome& o) { return o.waits; },
            [](const Outcome& o) { return o.idle_waits; },
            [](SchedulerOptions& o) -> Nth& { return o.drop_wait; }) == std::vector<std::string>{});
}

TEST_CASE("each synchronize of the engine dropped in turn is reported under every seed", "[slow]") {
  for (const Way way : {Way::shared, Way::collectives})
    CHECK(sweep(
              way, "synchronize", [](const Outcome& o) { return o.syncs; },
              [](const Outcome& o) { return o.idle_syncs; },
              [](SchedulerOptions& o) -> Nth& { return o.drop_sync; }) ==
          std::vector<std::string>{});
}

TEST_CASE("each call failed in turn ends in one typed error, never in a hang", "[slow]") {
  std::uint64_t failed = 0, silent = 0, harmless = 0, unordered = 0;
  std::map<std::string, int> kinds;
  for (const Way way : {Way::shared, Way::replicated, Way::collectives}) {
    for (Run run : of_way(3, way)) {
      run.updates = 2;
      const Outcome want = run_plain(run);
      const std::uint64_t calls = run_simulated(run, {.seed = 1}).calls;
      const std::uint64_t step = seeds(5) < 5 ? 17 : 1;
      for (std::uint64_t k = 1; k <= calls; k += step, ++failed) {
        const Outcome out = run_simulated(run, {.seed = 1 + k % 5, .fail_call = k});
        ++kinds[out.error.substr(0, out.error.find(':'))];
        if (out.error.empty() && out == want) {
          ++harmless;  // in the loader's thread, for a batch that nobody takes
        } else if (out.error.empty()) {
          ++silent;
          UNSCOPED_INFO(run.label << ", call " << k << ": not noticed");
        }
        for (const std::string& r : out.reports)
          if (r.find("deadlock") != std::string::npos)
            FAIL(run.label << ", call " << k << ": " << r);
        if (!out.reports.empty() && unordered++ < 5)
          WARN(run.label << ", call " << k << " (" << out.failed_call << "): " << out.reports[0]);
      }
    }
  }
  for (const auto& [kind, n] : kinds) WARN("calls failed in turn: " << n << " times " << kind);
  WARN("calls failed in turn: " << failed << ", of them " << harmless
                                << " for a batch that nobody takes");
  CHECK(failed > 0);
  CHECK(silent == 0);
  CHECK(unordered == 0);
}
