// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "belfry/tests/apps/cli.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

TEST_CASE("label_smoothing is in the training loss and not in the evaluation's") {
  const CliFolder f;
  const CliResult run = run_cli({"train", f.path(), "--set", "epochs=60", "--set",
                                 "label_smoothing=0.5", "--set", "log.every=240"});
  CAPTURE(run.out, run.err);
  REQUIRE(run.code == 0);
  // Its least value is the target's entropy: 2/3 ln 3/2 + 1/3 ln 6 for three classes.
  std::istringstream lines(read_text(f.out() + "/metrics.jsonl"));
  double loss = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.value("update", 0) == 240 && json.contains("rows")) loss = json["loss"];
  }
  CHECK(loss > 0.867563 - 1e-6);
  CHECK(loss < 0.8677);
  CHECK_THAT(run.out, Contains("accuracy 1.0000 (60 rows"));
  CHECK_THAT(run.out, Contains("test: loss 0.40"));  // -ln 2/3 = 0.405 of the fitted target
  const CliResult bad = run_cli({"check", f.path(), "--set", "label_smoothing=1"});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, Contains("label_smoothing") && Contains("float in [0, 1)"));
}
