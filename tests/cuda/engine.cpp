// SPDX-License-Identifier: MIT
// The engine on GPUs, simulated or real, NCCL included.
#include <algorithm>
#include <cmath>

#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::sim;

TEST_CASE("training on GPUs follows the CPU, under any order of execution", "[cuda][engine]") {
  std::uint64_t runs = 0, operations = 0;
  for (const int towers : {1, 2, 4})
    for (const Run& run : gpu_runs(towers)) {
      const Outcome cpu = run_plain(run);
      REQUIRE(cpu.error.empty());
      Outcome first;
      for (std::uint64_t seed = 1; seed <= orders(run, seeds(10)); ++seed, ++runs) {
        const Outcome got = run_on_gpus(run, {.seed = seed});
        INFO(run.label << ", " << towers << " GPUs, seed " << seed);
        REQUIRE(got.error == "");
        CHECK(got.reports == std::vector<std::string>{});
        if (seed == 1) {
          first = got;
          REQUIRE(got.losses.size() == cpu.losses.size());
          for (std::size_t i = 0; i < cpu.losses.size(); ++i)
            CHECK(std::fabs(got.losses[i] - cpu.losses[i]) <= 1e-5 * std::fabs(cpu.losses[i]));
        }
        CHECK(got == first);
        operations += got.operations;
      }
    }
  WARN(runs << " runs, " << operations << " operations");
}

TEST_CASE("several towers on one GPU give the bits of a GPU each", "[cuda][engine]") {
  for (const Run& run : gpu_runs(4)) {
    INFO(run.label);
    const Outcome apart = run_on_gpus(run, {.seed = 1});
    CHECK(run_on_gpus(run, {.seed = 2}, {0, 0, 0, 0}) == apart);
    CHECK(run_on_gpus(run, {.seed = 3}, {0, 1, 0, 1}) == apart);
    CHECK(run_on_gpus(run, {.seed = 5}, {0, 0, 1, 1}) == apart);
    CHECK(run_on_gpus(run, {.seed = 4}, {}, "threads") == apart);
  }
}

TEST_CASE("two towers on one GPU follow the CPU", "[cuda][engine][short]") {
  const Run run = gpu_runs(2)[1];  // fold, clip, l2, ema and evaluation
  const Outcome cpu = run_plain(run), got = run_on_gpus(run, {.seed = 1}, {0, 0});
  REQUIRE(got.error == "");
  CHECK(got.reports == std::vector<std::string>{});
  REQUIRE(got.losses.size() == cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    CHECK(std::fabs(got.losses[i] - cpu.losses[i]) <= 1e-5 * std::fabs(cpu.losses[i]));
}

TEST_CASE("strict gives the bits of one tower on two, three and four towers of one or two GPUs",
          "[cuda][engine]") {
  int compared = 0;
  const std::vector<Run> one = gpu_runs(1);
  for (std::size_t r = 0; r < one.size(); ++r) {
    if (one[r].optimizer().reduce != ReduceMode::strict) continue;
    INFO(one[r].label);
    const Outcome want = run_on_gpus(one[r], {.seed = 1}, {0});
    REQUIRE(want.error == "");
    CHECK(run_on_gpus(gpu_runs(2)[r], {.seed = 2}, {0, 0}) == want);
    CHECK(run_on_gpus(gpu_runs(4)[r], {.seed = 3}, {0, 0, 0, 0}) == want);
    CHECK(run_on_gpus(gpu_runs(4)[r], {.seed = 4}, {0, 0, 1, 1}) == want);
    CHECK(run_on_gpus(gpu_runs(3)[r], {.seed = 5}, {1, 0, 1}) == want);
    ++compared;
  }
  CHECK(compared == 6);
}

TEST_CASE("one tower over NCCL gives the bits of one without", "[cuda][engine][nccl]") {
  for (const Run& run : gpu_runs(1)) {
    INFO(run.label);
    const Outcome want = run_on_gpus(run, {.seed = 1}, {0});
    REQUIRE(want.error == "");
    const Outcome got = run_on_gpus(run, {.seed = 2}, {0}, "nccl");
    CHECK(got.reports == std::vector<std::string>{});
    CHECK(got == want);
  }
}
