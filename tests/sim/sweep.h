// SPDX-License-Identifier: MIT
// The engine with one thing gone wrong, on whatever simulates a run: each wait dropped, each call
// failed.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "belfry/tests/catch.h"
#include "belfry/tests/sim/engine.h"
#include "belfry/tests/sim/host.h"

namespace belfry::sim {

using Simulate = std::function<Outcome(const Run&, const SchedulerOptions&)>;

// What is not reported when the n-th call of a kind on each device is dropped; those that order
// nothing new in this run are left out and counted. `only` is an update whose calls alone are
// dropped, 0: all.
template <class Counts, class Idle, class Drop>
std::vector<std::string> sweep(const std::vector<Run>& runs, const Simulate& simulate,
                               const char* kind, Counts counts, Idle idle, Drop drop,
                               std::int64_t only = 0) {
  std::uint64_t dropped = 0, left_out = 0;
  std::set<std::string> missed;
  for (const Run& run : runs) {
    for (std::uint64_t seed = 1; seed <= seeds(3); ++seed) {
      const Outcome whole = simulate(run, {.seed = seed});
      const auto by = [&](std::int64_t updates) {
        Run part = run;
        part.updates = updates;
        return counts(simulate(part, {.seed = seed}));
      };
      std::map<int, std::uint64_t> before, last = counts(whole);
      if (only > 0) before = by(only - 1), last = by(only);
      for (const auto& [device, n] : last)
        for (std::uint64_t k = before[device] + 1; k <= n; ++k) {
          if (idle(whole).count({device, k}) != 0) {
            ++left_out;
            continue;
          }
          ++dropped;
          SchedulerOptions options{.seed = seed};
          drop(options) = {device, k};
          const Outcome out = simulate(run, options);
          if (out.reports.empty() && out.error.empty())
            missed.insert(run.label + ": " + kind + " " + std::to_string(k) + " of device " +
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

inline std::vector<std::string> drop_waits(const std::vector<Run>& runs, const Simulate& simulate,
                                           std::int64_t only = 0) {
  return sweep(
      runs, simulate, "wait", [](const Outcome& o) { return o.waits; },
      [](const Outcome& o) { return o.idle_waits; },
      [](SchedulerOptions& o) -> Nth& { return o.drop_wait; }, only);
}

inline std::vector<std::string> drop_syncs(const std::vector<Run>& runs, const Simulate& simulate) {
  return sweep(
      runs, simulate, "synchronize", [](const Outcome& o) { return o.syncs; },
      [](const Outcome& o) { return o.idle_syncs; },
      [](SchedulerOptions& o) -> Nth& { return o.drop_sync; });
}

// Each call of a run fails in turn (with few seeds: every `step`-th): one typed error, no hang, or
// the results of the whole run.
struct FailedCalls {
  std::uint64_t failed = 0, harmless = 0;
  std::map<std::string, int> kinds;
  std::vector<std::string> silent, unordered, deadlocks;
};

inline void fail_calls(const Run& run, const Simulate& simulate, std::uint64_t step,
                       FailedCalls& out) {
  const Outcome whole = simulate(run, {.seed = 1});
  for (std::uint64_t k = 1; k <= whole.calls; k += step, ++out.failed) {
    const Outcome got = simulate(run, {.seed = 1 + k % 5, .fail_call = k});
    const std::string where = run.label + ", call " + std::to_string(k) + " (" + got.failed_call;
    ++out.kinds[got.error.substr(0, got.error.find(':'))];
    if (got.error.empty() && got == whole)
      ++out.harmless;  // for a batch that nobody takes, or at the end
    else if (got.error.empty())
      out.silent.push_back(where + "): not noticed");
    for (const std::string& r : got.reports)
      (r.find("deadlock") != std::string::npos ? out.deadlocks : out.unordered)
          .push_back(where + "): " + r);
  }
}

inline void check(const FailedCalls& f) {
  for (const auto& [kind, n] : f.kinds)
    WARN("calls failed in turn: " << n << " times " << (kind.empty() ? "nothing" : kind));
  CHECK(f.failed > 0);
  CHECK(f.silent == std::vector<std::string>{});
  CHECK(f.unordered == std::vector<std::string>{});
  CHECK(f.deadlocks == std::vector<std::string>{});
}

}  // namespace belfry::sim
