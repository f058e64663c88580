// SPDX-License-Identifier: MIT
// A small gpt on GPUs.
#include "belfry/tests/sim/gpt.h"

#include <cmath>

#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::sim;
using Catch::Matchers::Contains;

namespace {

GptRun on_cpu(int towers, bool strict = false) {
  ContextOptions options;
  options.towers = "cpu:" + std::to_string(towers);
  options.threads_per_tower = 1;
  GroupOptions group;
  group.variables = Variables::replicated;
  return run_gpt(options, group, false, strict);
}

GptRun on_gpus(int gpus, std::uint64_t seed, bool wrong = false, bool strict = false) {
  Gpus machine(gpus, {.seed = seed});
  GroupOptions group;
  group.variables = Variables::replicated;
  GptRun out = run_gpt(machine.options(), group, wrong, strict);
  CHECK(machine.faults() == std::vector<std::string>{});
  return out;
}

}  // namespace

TEST_CASE("a gpt on GPUs follows the CPU, under any order of execution", "[cuda][gpt][short]") {
  for (const int gpus : {1, 2}) {
    const GptRun want = on_cpu(gpus), first = on_gpus(gpus, 1);
    REQUIRE(want.error == "");
    REQUIRE(first.error == "");
    REQUIRE(first.losses.size() == want.losses.size());
    for (std::size_t i = 0; i < want.losses.size(); ++i)
      CHECK(std::fabs(first.losses[i] - want.losses[i]) <= 1e-5 * want.losses[i]);
    for (std::uint64_t seed = 2; seed <= seeds(5); ++seed) CHECK(on_gpus(gpus, seed) == first);
  }
}

TEST_CASE("a gpt in strict mode has the same bits on 1, 2 and 4 GPUs", "[cuda][gpt]") {
  const GptRun want = on_gpus(1, 1, false, true);
  REQUIRE(want.error == "");
  CHECK(on_gpus(2, 2, false, true) == want);
  CHECK(on_gpus(4, 3, false, true) == want);
}

TEST_CASE("a token outside the table is a DataError from a GPU too", "[cuda][gpt]") {
  const GptRun got = on_gpus(2, 1, true);
  CHECK_THAT(got.error, Contains("index of row") && Contains("99") && Contains("[0, 11)"));
}
