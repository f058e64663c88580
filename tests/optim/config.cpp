// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/optim/optimizer_config.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

Optimizer load(const std::string& text) {
  static const Registry registry = builtin();
  Document document = Document::from_text(text, "run.toml");
  const OptimizerLoader loader(document, registry);
  document.finish();
  return loader.build();
}

std::string fault_of(const std::string& text) {
  try {
    load(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a full [optimizer] and [schedule]", "[optim]") {
  const Optimizer o = load(R"(
[optimizer]
name = "adam"
lr = 1
weight_decay = 1e-4
no_decay = ["*.bias"]
l2 = 0.001
clip = "global_norm"
clip_limit = 2.5
multipliers = ["*=0.5", "head.* = 2"]
freeze = ["stem.*"]
statistics = "norms"
guard = false
ema = 0.99
missing = "zero"
accumulate = 4
beta1 = 0.8
second_moment = "towers"

[schedule]
name = "linear"
over = "100u"
end = 0.5
warmup = 10
warmup_start = 0.2
)");
  CHECK(o.rule->name() == "adam");
  CHECK(o.rule->wants_squares());
  CHECK(o.lr.base == 1);
  CHECK(o.weight_decay == 1e-4);
  CHECK(o.no_decay == std::vector<std::string>{"*.bias"});
  CHECK(o.l2 == 0.001);
  CHECK(o.clip == Clip::global_norm);
  CHECK(o.clip_limit == 2.5);
  CHECK(o.multiplier_of("hidden.weight") == 0.5);
  CHECK(o.multiplier_of("head.weight") == 2);
  CHECK(o.frozen_variable("stem.weight"));
  CHECK(o.statistics == Statistics::norms);
  CHECK_FALSE(o.guard);
  CHECK(o.ema == 0.99);
  CHECK(o.missing == MissingOnSome::zero);
  CHECK(o.accumulate == 4);
  CHECK(o.lr.at(0, {}) == Approx(0.2).epsilon(1e-12));
  CHECK(o.lr.at(50, {}) == Approx(0.75).epsilon(1e-12));
  CHECK(o.lr.at(100, {}) == 0.5);
  // beta1 = 0.8 reached the rule: after gradients 1 and 0, mean = 0.8 x 0.2 and the correction of
  // the second update is 1 - 0.64.
  double p = 0, state[2] = {0, 0};
  o.rule->reference(p, 1, 1, state, {.lr = 1, .step = 1});
  o.rule->reference(p, 0, 0, state, {.lr = 1, .step = 2});
  CHECK(state[0] == Approx(0.16).epsilon(1e-12));
}

TEST_CASE("defaults: momentum at a constant 0.1; each rule its own", "[optim]") {
  const Optimizer o = load("");
  CHECK(o.rule->name() == "momentum");
  CHECK(o.lr.base == 0.1);
  CHECK(o.lr.at(12345, {}) == 0.1);
  CHECK(o.clip == Clip::none);
  CHECK(o.guard);
  CHECK(load("[optimizer]\nname = \"adam\"\n").lr.base == 1e-3);
  CHECK(load("[optimizer]\nname = \"adamw\"\n").weight_decay == 0.01);
  CHECK(load("[optimizer]\nname = \"adamw\"\nweight_decay = 0\n").weight_decay == 0);
}

TEST_CASE("faults of [optimizer] name file, line, key and the nearest name", "[optim]") {
  const std::string rule = fault_of("[optimizer]\nname = \"momentun\"\nmomentum = 0.5\n");
  INFO(rule);
  CHECK(has(rule, "run.toml:2:"));
  CHECK(has(rule, "unknown optimizer"));
  CHECK(has(rule, "did you mean 'momentum'?"));
  CHECK(has(rule, "adam, adamw"));
  CHECK_FALSE(has(rule, "faults in the config"));  // one mistake, one message
  const std::string schedule = fault_of("[schedule]\nname = \"cosin\"\nover = \"3e\"\n");
  INFO(schedule);
  CHECK(has(schedule, "run.toml:2:"));
  CHECK(has(schedule, "did you mean 'cosine'?"));
  CHECK_FALSE(has(schedule, "faults in the config"));
  const std::string key = fault_of("[optimizer]\nmomentum = 0.9\nmomentm = 0.9\n");
  CHECK(has(key, "run.toml:3:"));
  CHECK(has(key, "did you mean 'momentum'?"));
  // A key of another rule is unknown here.
  CHECK(has(fault_of("[optimizer]\nname = \"sgd\"\nmomentum = 0.9\n"), "'optimizer.momentum'"));
  CHECK(has(fault_of("[optimizer]\nname = 3\n"), "expected string"));
}

TEST_CASE("B32: numbers out of range in the config", "[optim][scenario]") {
  for (const char* bad : {"0", "-0.1", "nan", "inf", "1e400"}) {
    const std::string text = fault_of(std::string("[optimizer]\nlr = ") + bad + "\n");
    INFO(text);
    CHECK(has(text, "run.toml:2:"));
    CHECK((has(text, "(0, 1000000]") || has(text, "1e400")));
  }
  for (const char* bad : {"1.0", "1.5", "-0.1", "nan"}) {
    const std::string text = fault_of(std::string("[optimizer]\nmomentum = ") + bad + "\n");
    INFO(text);
    CHECK(has(text, "'optimizer.momentum'"));
    CHECK(has(text, "[0, 1)"));
  }
  CHECK(has(fault_of("[optimizer]\nname = \"adam\"\nbeta2 = 1.0\n"), "'optimizer.beta2'"));
  CHECK(has(fault_of("[optimizer]\nname = \"adam\"\neps = 0\n"), "'optimizer.eps'"));
  CHECK(has(fault_of("[optimizer]\nclip = \"global_norm\"\nclip_limit = 0\n"), "clip_limit"));
  CHECK(has(fault_of("[optimizer]\nclip = \"value\"\nclip_limit = nan\n"), "clip_limit"));
  CHECK(has(fault_of("[optimizer]\nclip = \"norm\"\n"), "'global_norm'"));
  CHECK(has(fault_of("[optimizer]\nclip_limit = 1\n"), "no effect"));
  CHECK(has(fault_of("[optimizer]\nclip_limit = 1e-7\n"), "clip_limit = 1e-07 has"));
  CHECK(has(fault_of("[optimizer]\nmultipliers = [\"head=1e300\"]\n"), "found 1e+300, expected"));
  CHECK(has(fault_of("[optimizer]\naccumulate = 0\n"), "'optimizer.accumulate'"));
  CHECK(has(fault_of("[optimizer]\naccumulate = 1.5\n"), "integer"));
  CHECK(has(fault_of("[optimizer]\nmultipliers = [\"head=fast\"]\n"), "head=fast"));
  CHECK(has(fault_of("[optimizer]\nmultipliers = [\"head=nan\"]\n"), "multipliers: 'head'"));
  CHECK(has(fault_of("[optimizer]\nmultipliers = [\"=2\"]\n"), "pattern=factor"));
}

TEST_CASE("faults of [schedule]", "[optim]") {
  CHECK(has(fault_of("[schedule]\nname = \"cosine\"\n"), "'over' is required"));
  CHECK(has(fault_of("[schedule]\nname = \"linear\"\nover = \"0u\"\n"), "above zero"));
  CHECK(has(fault_of("[schedule]\nname = \"step\"\nevery = \"3 epochs\"\n"), "3 epochs"));
  CHECK(has(fault_of("[schedule]\nname = \"step\"\nevery = \"3e\"\ngamma = nan\n"), "gamma"));
  CHECK(has(fault_of("[schedule]\nwarmup = \"x\"\n"), "'schedule.warmup'"));
  CHECK(has(fault_of("[schedule]\nwarmup_start = 2\n"), "[0, 1]"));
  const std::string both = fault_of("[optimizer]\nlr = -1\n[schedule]\nwarmup_start = 2\n");
  CHECK(has(both, "2 faults"));
}

}  // namespace belfry
