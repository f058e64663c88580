// SPDX-License-Identifier: MIT
// What every optimizer rule of the registry promises, whoever wrote it.
#include <limits>
#include <set>

#include "belfry/core/error.h"
#include "belfry/optim/schedule.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/optim/rule_fixture.h"
#include "belfry/tests/optim/rule_variants.h"

namespace belfry {
namespace {

using test::normals;
using test::ReferenceRun;
using test::RuleRun;
using test::same_bits;
using test::squares_of;

UpdateScalars scalars_of(int step) {
  // A rate that changes, decay, and a clip factor on every third update.
  return {.lr = step % 2 ? 0.01f : 0.02f,
          .decay = 0.1f,
          .clip = step % 3 == 0 ? 0.25f : 1.0f,
          .step = static_cast<float>(step)};
}

void train(RuleRun& run, int steps) {
  for (int step = 1; step <= steps; ++step) {
    const std::vector<float> grad = normals(run.param.size(), static_cast<std::uint32_t>(step));
    run.update(grad, scalars_of(step), squares_of(grad));
  }
}

template <class F>
void for_each_rule(F f) {
  const Registry registry = builtin();
  REQUIRE(registry.table<RuleEntry>().names().size() >= 6);
  for (const auto& [name, entry] : registry.table<RuleEntry>())
    for (const auto& rule : test::rule_variants(entry)) {
      INFO("rule " << name);
      f(name, entry, *rule);
    }
}

}  // namespace

TEST_CASE("rules: names, help and states", "[contract][rules]") {
  for_each_rule([](const std::string& name, const RuleEntry& entry, const Rule& rule) {
    CHECK(rule.name() == name);
    CHECK(entry.help.size() > 10);
    const std::vector<std::string> states = rule.state_names();
    CHECK(std::set<std::string>(states.begin(), states.end()).size() == states.size());
    CHECK(rule.defaults().lr > 0);
  });
}

TEST_CASE("rules: 20 updates follow the reference", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    const std::vector<float> initial = normals(257, 0);
    RuleRun run(rule, initial);
    ReferenceRun reference(rule, initial);
    for (int step = 1; step <= 20; ++step) {
      const std::vector<float> grad = normals(257, static_cast<std::uint32_t>(step));
      // Not the gradient's own square: a rule that mistakes one for the other fails.
      std::vector<float> square = squares_of(grad);
      for (float& s : square) s = 1.5f * s + 0.01f;
      run.update(grad, scalars_of(step), square);
      reference.update(grad, scalars_of(step), square);
      CHECK(test::distance(run.param, reference.param) < 3e-6);
    }
  });
}

TEST_CASE("rules: pieces give the bits of the whole", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    const std::vector<float> initial = normals(1001, 0);
    RuleRun whole(rule, initial);
    train(whole, 5);
    const std::vector<std::vector<std::size_t>> cuts = {
        {}, {1}, {333, 335}, {1, 64, 127, 1000}, {0, 500, 500}};
    for (const auto& c : cuts) {
      RuleRun parts(rule, initial);
      parts.cuts = c;
      train(parts, 5);
      // A layer-wise rule adds up norms by segment: where these are cut changes its rounding.
      if (rule.layerwise())
        CHECK(test::distance(parts.param, {whole.param.begin(), whole.param.end()}) < 1e-6);
      else
        CHECK(same_bits(parts.param, whole.param));
      for (std::size_t s = 0; !rule.layerwise() && s < whole.state.size(); ++s)
        CHECK(same_bits(parts.state[s], whole.state[s]));
    }
  });
}

TEST_CASE("rules: executor and threads change no bit", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    const std::vector<float> initial = normals(70001, 0);
    RuleRun in_place(rule, initial), lazy(rule, initial, Executor::lazy),
        threads(rule, initial, Executor::in_place, 3);
    for (RuleRun* run : {&in_place, &lazy, &threads}) train(*run, 3);
    CHECK(same_bits(lazy.param, in_place.param));
    CHECK(same_bits(threads.param, in_place.param));
    for (std::size_t s = 0; s < in_place.state.size(); ++s) {
      CHECK(same_bits(lazy.state[s], in_place.state[s]));
      CHECK(same_bits(threads.state[s], in_place.state[s]));
    }
  });
}

TEST_CASE("rules: an empty range is nothing", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    RuleRun run(rule, {});
    CHECK_NOTHROW(train(run, 1));
  });
}

TEST_CASE("rules: a zero gradient only decays, a fresh state stays zero", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    const std::vector<float> initial = normals(65, 0), zero(65, 0.0f);
    RuleRun still(rule, initial);
    still.update(zero, {.lr = 0.1f}, zero);
    CHECK(same_bits(still.param, initial));
    for (const auto& s : still.state) CHECK(same_bits(s, zero));
    RuleRun decays(rule, {1.0f});
    decays.update({0.0f}, {.lr = 0.1f, .decay = 0.1f}, {0.0f});
    // A layer-wise step is as long as the rate times the parameter.
    CHECK(decays.param[0] == Approx(rule.layerwise() ? 0.9 : 0.99).epsilon(1e-6));
  });
}

TEST_CASE("rules: touches cover parameters, gradient, state and scalars", "[contract][rules]") {
  struct Recorder : Stream {
    std::vector<Touch> seen;
    DeviceId device() const noexcept override { return {}; }
    void* native() const noexcept override { return nullptr; }
    void record(Event&) override {}
    void wait(const Event&) override {}
    void copy(void*, const void*, std::size_t) override {}
    void fill(void*, int, std::size_t) override {}
    void launch(const KernelCall& call) override {
      Touches t;
      call.touches(call.functor, call.n, t);
      seen.assign(t.begin(), t.end());
    }
    void synchronize() override {}
    void host_access(const Touches&) override {}
    bool capturing() const noexcept override { return false; }
    void begin_capture() override {}
    std::unique_ptr<Graph> end_capture() override { return nullptr; }
    void replay(Graph&) override {}
    void submit(const Touches&, Task) override {}
  };
  for_each_rule([](const std::string&, const RuleEntry&, const Rule& rule) {
    std::vector<float> param(7), grad(7), square(7);
    std::vector<std::vector<float>> state(rule.state_names().size(), std::vector<float>(7));
    const UpdateScalars scalars;
    const SegmentRef segments[2] = {{100, 3, 0}, {103, 4, 0}};
    Recorder stream;
    UpdateArgs args{.rows = 2,
                    .segments = segments,
                    .first = 100,
                    .size = 7,
                    .origin = 100,
                    .grad_origin = 100,
                    .param = param.data(),
                    .grad = grad.data(),
                    .square = square.data(),
                    .scalars = &scalars,
                    .variables = 1};
    for (std::size_t k = 0; k < state.size(); ++k) args.state[k] = state[k].data();
    rule.update(stream, args);
    const auto has = [&](const void* p, std::size_t bytes, bool write) {
      for (const Touch& t : stream.seen)
        if (t.data == p && t.bytes == bytes && t.write == write) return true;
      return false;
    };
    CHECK(has(param.data(), 28, false));
    CHECK(has(param.data(), 28, true));
    CHECK(has(grad.data(), 28, false));
    CHECK(has(&scalars, sizeof scalars, false));
    CHECK(has(segments, sizeof segments, false));
    CHECK(has(square.data(), 28, false) == rule.wants_squares());
    for (const auto& s : state) {
      CHECK(has(s.data(), 28, false));
      CHECK(has(s.data(), 28, true));
    }
  });
}

TEST_CASE("rules: no hyper-parameter takes NaN, infinity or -1", "[contract][rules]") {
  for_each_rule([](const std::string&, const RuleEntry& entry, const Rule&) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), -1.0}) {
      const auto rule = entry.make();
      Schema schema;
      rule->declare(schema);
      CHECK_NOTHROW(schema.validate("rule"));
      for (const Key& key : schema.keys()) {
        CHECK(!key.options.help.empty());
        double* const* target = std::get_if<double*>(&key.target);
        if (target == nullptr) continue;
        const double good = **target;
        **target = bad;
        CHECK_THROWS_AS(schema.validate("rule"), ConfigError);
        **target = good;
      }
    }
  });
}

TEST_CASE("schedules: names, help and finite factors", "[contract][schedules]") {
  const Registry registry = builtin();
  REQUIRE(registry.table<ScheduleEntry>().names().size() >= 4);
  for (const auto& [name, entry] : registry.table<ScheduleEntry>()) {
    INFO("schedule " << name);
    const auto schedule = entry.make();
    CHECK(schedule->name() == name);
    CHECK(entry.help.size() > 10);
    Schema schema;
    schedule->declare(schema);
    for (const Key& key : schema.keys())
      if (key.options.period) *std::get<std::string*>(key.target) = "2e";
    CHECK_NOTHROW(schema.validate("schedule"));
    const Clock clock{.rows_per_epoch = 105, .batch = 10};
    double first = 1;  // unless the schedule itself rises
    for (const Key& key : schema.keys())
      if (key.name == "start") first = *std::get<double*>(key.target);
    CHECK(schedule->factor(0, clock) == Approx(first).epsilon(1e-12));
    for (const std::int64_t k : {1, 21, 22, 23, 1000000}) {
      CHECK(schedule->factor(k, clock) >= 0);
      CHECK(schedule->factor(k, clock) <= 1);
    }
  }
}

}  // namespace belfry
