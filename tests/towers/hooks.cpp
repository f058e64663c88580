// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

// LIN that also reports a figure that is not a number.
Loss with_nan_metric(Module& m, const Batch& b, Step& s) {
  const Tensor bad =
      Tensor::from({std::numeric_limits<double>::quiet_NaN()}, {}, DType::f32, b["x"].device());
  const Tensor one = Tensor::from({1}, {}, DType::f32, b["x"].device());
  s.report("odd", {bad, one});
  return lin_loss(m, b, s);
}

}  // namespace

TEST_CASE("B47 one whole JSON object an update, increasing, null for NaN, units in the names") {
  const TestFolder folder;
  LinRun run(2, 3, sgd({.lr = 0.001}));
  run.train({.output = folder.path()}, {make_hook("jsonl"), make_hook("checkpoint")},
            with_nan_metric);
  const std::vector<std::string> lines = lines_of(read_text(folder / "metrics.jsonl"));
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(lines[i]);
    const auto json = nlohmann::json::parse(lines[i]);  // strict: NaN is no JSON
    CHECK(json.at("update") == i + 1);
    CHECK(json.at("rows") == 8);
    CHECK(json.at("odd").is_null());
    for (const char* key : {"loss", "learning_rate", "seconds", "data_wait_seconds",
                            "exposed_seconds", "samples_per_second"})
      CHECK(json.at(key).is_number());
  }
  CHECK(nlohmann::json::parse(lines[0]).at("loss").get<double>() == Approx(102).epsilon(1e-6));
}

TEST_CASE("B47 a resumed run continues the metrics and drops what came after its checkpoint") {
  const TestFolder folder;
  LinRun first(1, 3, sgd({.lr = 0.001}));
  first.train({.output = folder.path()},
              {make_hook("jsonl"), make_hook("checkpoint", "every = \"1e\"\nkeep = 9")});
  std::filesystem::remove_all(folder /
                              "step_3");  // as if the run had died after update 2 was saved
  write_text(folder / "metrics.jsonl",
             read_text(folder / "metrics.jsonl") + "{\"update\": 4, \"lo");
  LinRun second(1, 4, sgd({.lr = 0.001}));
  CHECK(second
            .train({.output = folder.path(), .resume = "newest"},
                   {make_hook("jsonl"), make_hook("checkpoint")})
            .updates == 2);
  std::vector<int> updates;
  for (const std::string& line : lines_of(read_text(folder / "metrics.jsonl")))
    updates.push_back(nlohmann::json::parse(line).at("update"));
  CHECK(updates == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("progress: plain lines elsewhere, one rewritten line on a terminal") {
  const auto output = [](bool live, const std::string& keys) {
    std::string text;
    double now = 0;
    LinRun run(2, 6, sgd({.lr = 0.001}));
    TrainerOptions options;
    options.live = live;
    options.out = [&](std::string_view part) { text += part; };
    options.now = [&] { return now += 1; };
    run.train(options, {make_hook("progress", keys)});
    return text;
  };
  const std::vector<std::string> plain = lines_of(output(false, "every = 2"));
  REQUIRE(plain.size() == 4);
  CHECK_THAT(plain[0], Contains("epoch 2/6 update 2/6 loss ") && Contains(" lr 0.001 ") &&
                           Contains(" samples/s exposed ") && Contains("% data wait ") &&
                           Contains("% ETA 0:"));
  CHECK_THAT(plain[3], Contains("trained 6 updates, 48 rows"));
  CHECK(plain[0].find('\x1b') == std::string::npos);
  const std::string live = output(true, "every = 3");
  CHECK(std::count(live.begin(), live.end(), '\r') == 6);
  CHECK(std::count(live.begin(), live.end(), '\n') == 3);
  CHECK_THAT(live, Contains("\x1b[K"));
}

TEST_CASE("validation: whole set, weighted by rows, at the end of each epoch") {
  LinRun run(2, 2, sgd({.lr = 0.001}), 10, 4);
  int calls = 0;
  run.evaluate = [&] {
    ++calls;
    Loader loader(run.context, lin_data(5), {.batch = 4, .shuffle = false});
    return run.group.evaluate(loader, lin_loss);
  };
  const TrainResult result = run.train({}, {make_hook("validation")});
  CHECK(calls == 2);
  REQUIRE(result.validation);
  CHECK(result.validation->rows == 5);
  const double off = run.w() - 2;  // mean of x^2 over 1..5 is 11
  CHECK(result.validation->loss == Approx(11 * off * off).epsilon(1e-5));
}

TEST_CASE("progress: the time left counts the validations to come, once one was measured") {
  const auto etas = [](const std::string& every) {
    std::string text;
    double now = 0;
    LinRun run(1, 6, sgd({.lr = 0.001}));
    run.evaluate = [] { return EvalReport{.rows = 8, .loss = 1, .seconds = 600}; };
    TrainerOptions options;
    options.out = [&](std::string_view part) { text += part; };
    options.now = [&] { return now += 0.001; };
    run.train(options, {make_hook("progress", "every = 1"),
                        make_hook("validation", "every = \"" + every + "\"")});
    std::vector<std::string> out;
    for (const std::string& line : lines_of(text))
      if (const auto at = line.find("ETA "); at != line.npos) out.push_back(line.substr(at + 4));
    return out;
  };
  // Six updates of next to no time, each of the validations ten minutes.
  CHECK(etas("2u") == std::vector<std::string>{"0:00", "20:00", "20:00", "10:00", "10:00", "0:00"});
  CHECK(etas("3e") == std::vector<std::string>{"0:00", "0:00", "10:00", "10:00", "10:00", "0:00"});
}

TEST_CASE(
    "early stop and best: the metric's direction, unknown metrics by name, no validation set") {
  LinRun run(1, 2, sgd({.lr = 0.001}));
  CHECK_THROWS_WITH(run.train({}, {make_hook("early_stop", "patience = 1")}),
                    Contains("needs a validation set"));
  run.evaluate = [] { return EvalReport{.rows = 8, .loss = 1, .metrics = {{"accuracy", 0.5}}}; };
  CHECK_THROWS_WITH(run.train({}, {make_hook("validation"),
                                   make_hook("early_stop", "patience = 1\nmetric = \"f1\"")}),
                    Contains("'f1'") && Contains("'accuracy'"));
  LinRun loss_run(1, 9, sgd({.lr = 0.001}));
  double loss = 4;
  loss_run.evaluate = [&] { return EvalReport{.rows = 8, .loss = loss > 2 ? --loss : loss}; };
  const TrainResult result = loss_run.train(
      {}, {make_hook("validation"), make_hook("early_stop", "patience = 2\nmetric = \"loss\"")});
  CHECK(result.updates == 4);
}
