// SPDX-License-Identifier: MIT
// The engine on the CUDA plug-in's own objects with one thing gone wrong.
#include <cstdlib>
#include <map>

#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/sim/sweep.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

std::vector<Run> short_runs(int gpus) {
  std::vector<Run> out = gpu_runs(gpus);
  for (Run& run : out) run.updates = 2;
  return out;
}

Simulate by(const std::string& transport) {
  return [transport](const Run& run, const SchedulerOptions& options) {
    return run_on_gpus(run, options, {}, transport);
  };
}

}  // namespace

// Of the third of four updates: memory is taken before it, for which the host waits for the device,
// and nothing else waits until after the next.
TEST_CASE("each wait of a CUDA stream dropped in turn is reported under every seed",
          "[cuda-sim][slow]") {
  std::vector<Run> runs;
  for (Run& run : gpu_runs(2)) {
    run.updates = 4, run.batch = 8;
    if (!run.evaluate) runs.push_back(run);
  }
  CHECK(drop_waits(runs, by("nccl"), 3) == std::vector<std::string>{});
  for (Run run : runs) {
    INFO(run.label);
    const auto syncs = by("nccl")(run, {.seed = 1}).syncs;
    run.updates = 3;
    CHECK(by("nccl")(run, {.seed = 1}).syncs == syncs);  // none in an update
  }
}

TEST_CASE("each call of the CUDA libraries failed in turn ends in one typed error",
          "[cuda-sim][slow]") {
  FailedCalls all;
  const char* const set = std::getenv("BELFRY_SIM_SEEDS");  // 500 in .ci/long
  const bool each = set != nullptr && std::strtoull(set, nullptr, 10) >= 500;
  for (const Run& run : short_runs(2)) fail_calls(run, by("nccl"), each ? 1 : 23, all);
  check(all);
}

TEST_CASE("the exchange of the first bucket runs under the backward pass of a GPU", "[cuda-sim]") {
  Run run = gpu_runs(2)[0];
  run.updates = 2;  // the first of a kind holds its buckets back
  run.batch = 8;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome out = run_on_gpus(run, {.seed = seed, .trace = true});
    REQUIRE(out.error == "");
    // Of the second update: the first collective begins before the last product has ended.
    double collective = -1, product = -1;
    for (const Traced& t : out.trace) {
      if (t.what.find("ncclGroup") != std::string::npos || t.what.find("exchange") == 0 ||
          t.what.find("send") == 0)
        if (collective < 0) collective = t.begin;
      if (t.what.find("Matmul") != std::string::npos) product = t.end;
    }
    INFO("seed " << seed);
    CHECK(collective > 0);
    CHECK(collective < product);
  }
}

// The device updates and gathers while the host already puts the next update on its streams: of the
// second and third of four, for which no memory is taken any more.
TEST_CASE("the host goes on before the update of its GPU has ended", "[cuda-sim]") {
  int compared = 0;
  for (Run run : gpu_runs(2)) {
    if (run.norm || run.capture || run.evaluate) continue;
    run.updates = 4;
    run.batch = 8;
    for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
      INFO(run.label << ", seed " << seed);
      const Outcome out = run_on_gpus(run, {.seed = seed, .trace = true});
      REQUIRE(out.error == "");
      REQUIRE(out.reports == std::vector<std::string>{});
      struct Main {
        double ended = -1;  // the rule's last kernel
        int updates = 0;
      };
      std::map<std::string, Main> streams;
      for (const Traced& t : out.trace) {
        Main& s = streams[t.queue];
        if (t.what.find("_update on") != std::string::npos) {
          if (s.ended < 0) ++s.updates;
          s.ended = t.end;
        } else if (t.what.find("Matmul") != std::string::npos && s.ended >= 0) {
          INFO(t.queue << ", update " << s.updates);
          if (s.updates == 2 || s.updates == 3) {
            CHECK(t.issued < s.ended);
            ++compared;
          }
          s.ended = -1;
        }
      }
    }
  }
  CHECK(compared == 7 * 2 * 2 * static_cast<int>(seeds(10)));
}
