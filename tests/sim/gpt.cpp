// SPDX-License-Identifier: MIT
// A gpt with every range hidden that is not declared, and on other executors.
#include "belfry/tests/sim/gpt.h"

#include "belfry/tests/catch.h"
#include "belfry/tests/sim/declared.h"

using namespace belfry;
using namespace belfry::sim;

TEST_CASE("a gpt's updates declare all that they read and write", "[ranges]") {
  for (const Variables variables : {Variables::shared, Variables::replicated}) {
    GroupOptions group;
    group.variables = variables;
    const auto options = [](const std::shared_ptr<Platform>& platform) {
      ContextOptions o;
      o.towers = "cpu:3";
      o.threads_per_tower = 1;
      o.platform = platform;
      return o;
    };
    const GptRun want = run_gpt(options(nullptr), group);
    REQUIRE(want.error == "");
    REQUIRE(want.losses.size() == 3);
    const auto platform = std::make_shared<DeclaredPlatform>();
    CHECK(run_gpt(options(platform), group) == want);
    CHECK(platform->memory().reports() == std::vector<std::string>{});
  }
}

TEST_CASE("a gpt has the same bits on lazy and threaded executors") {
  ContextOptions options;
  options.towers = "cpu:2";
  options.threads_per_tower = 1;
  const GptRun want = run_gpt(options, {});
  REQUIRE(want.error == "");
  for (const Executor executor : {Executor::lazy, Executor::threaded}) {
    options.executor = executor;
    CHECK(run_gpt(options, {}) == want);
  }
}
