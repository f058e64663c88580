// SPDX-License-Identifier: MIT
// The engine on devices whose memory the host cannot touch and that cannot touch ordinary host
// memory: what GPUs demand, without one.
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>

#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/loss/correct.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/ops/reduce/mean.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/autodiff/state.h"
#include "belfry/core/error.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/communicator.h"
#include "belfry/tests/sim/engine.h"
#include "belfry/towers/checkpoint/checkpoint.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

const std::vector<std::string> kNothing;

struct Small : Module {
  Linear hidden{*this, "hidden", 6, 1400, Activation::tanh};
  Linear head{*this, "head", 1400, 3};
  ModuleState seen{*this, "seen", Shape{1}, StateKind::mean};
  Tensor forward(const Tensor& x) {
    seen.contribute(reshape(mean(x).detach(), {1}));
    return head(hidden(x));
  }
};

Loss loss_of(Small& net, const Batch& b, Step& step) {
  const Tensor logits = net.forward(b["image"]);
  step.report("accuracy", correct(logits, b["label"]));
  return cross_entropy(logits, b["label"]);
}

// Rows of which one may have an invalid label, or a pixel that is not finite.
std::shared_ptr<const Dataset> rows(std::int64_t n, int bad_label = -1, int bad_pixel = -1) {
  std::vector<float> x(static_cast<std::size_t>(6 * n));
  std::vector<std::int32_t> y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 13) / 13;
  for (std::int64_t r = 0; r < n; ++r) y.push_back(static_cast<std::int32_t>(r % 3));
  if (bad_label >= 0) y[static_cast<std::size_t>(bad_label)] = 7;
  if (bad_pixel >= 0)
    x[static_cast<std::size_t>(6 * bad_pixel)] = std::numeric_limits<float>::infinity();
  return memory_dataset(std::move(x), Shape{6}, std::move(y), 8);
}

struct Machine {
  std::shared_ptr<SimPlatform> platform;  // null: the plain CPU
  std::unique_ptr<Context> context;
  GroupOptions options;
};

Machine plain(int towers) {
  Machine m;
  m.context = std::make_unique<Context>(
      ContextOptions{.towers = "cpu:" + std::to_string(towers), .seed = 3, .threads_per_tower = 1});
  return m;
}

Machine separate(int towers, std::uint64_t seed, bool collectives) {
  Machine m;
  m.platform = std::make_shared<SimPlatform>(SchedulerOptions{.seed = seed}, true);
  m.context = std::make_unique<Context>(ContextOptions{.towers = "cpu:" + std::to_string(towers),
                                                       .seed = 3,
                                                       .threads_per_tower = 1,
                                                       .platform = m.platform});
  if (collectives) m.options.make_transport = sim_transport(m.platform->scheduler());
  return m;
}

// What a run says and does, to compare.
using Lines = std::vector<std::string>;

void note(Lines& log, const Report& r) {
  log.push_back(fmt::format("update {} loss {} norm {} weight {} accuracy {}", r.update, r.loss(),
                            r.norm, r.weight,
                            r.metrics.count("accuracy") ? r.metrics.at("accuracy") : -1));
}

void note(Lines& log, const std::vector<GroupArray>& arrays) {
  for (const GroupArray& a : arrays) {
    double sum = 0;
    for (const float v : a.values) sum = 3 * sum / 4 + static_cast<double>(v);
    log.push_back(fmt::format("{} {} {} {}", a.kind, a.variable, a.shape.text(), sum));
  }
}

template <class F>
void note_error(Lines& log, F&& f) {
  try {
    f();
    log.push_back("no error");
  } catch (const std::exception& e) {
    log.push_back(e.what());
  }
}

Optimizer everything() {
  Optimizer o = adam({.lr = 0.01, .second_moment = "towers"});
  o.clip_global_norm(0.5).with_l2(0.01).with_ema(0.9).decay(0.1).with_statistics(
      Statistics::squares);
  return o;
}

// All that a group can do, once or twice.
Lines everything_of(Machine& m, const Optimizer& optimizer) {
  Lines log;
  Context& c = *m.context;
  TowerGroup<Small> group(c, optimizer, m.options);
  const auto fn = [](Small& net, const Batch& b, Step& s) { return loss_of(net, b, s); };
  const auto batch = [&](const std::shared_ptr<const Dataset>& data) {
    Loader loader(c, data, {.batch = 100, .epochs = 1, .shuffle = false, .prefetch = 0});
    Batch out;
    REQUIRE(loader.next(out));
    return out;
  };
  const auto step = [&](const std::shared_ptr<const Dataset>& data) {
    note(log, group.step(batch(data), fn));
  };
  const auto state = [&] {
    note(log, group.arrays());
    log.push_back(group.parameter_hash());
    for (const auto& [name, n] : group.clocks().steps) log.push_back(fmt::format("{} {}", name, n));
  };
  step(rows(12));
  note_error(log, [&] { step(rows(12, 9)); });
  note_error(log, [&] { step(rows(12, -1, 5)); });
  note_error(log, [&] {
    group.step(batch(rows(12)), [&](Small& net, const Batch& b, Step& s) {
      Loss loss = loss_of(net, b, s);
      if (s.tower == 1) throw std::runtime_error("no");
      return loss;
    });
  });
  state();
  step(rows(2));  // towers without rows
  note(log, group.averaged(batch(rows(11)), fn));
  note(log, group.squares());
  auto gradients = group.gradients(batch(rows(7)), fn);
  const auto mean =
      average_gradients(gradients.towers, {.include_square = true, .weights = gradients.weights});
  gradients = {};
  note(log, group.apply(mean));
  note_error(log, [&] { group.gradients(batch(rows(7, 6)), fn); });
  for (const bool ema : {false, true}) {
    Loader some(c, rows(9), {.batch = 4, .epochs = 1, .shuffle = false, .prefetch = 1});
    const EvalReport r = group.evaluate(some, fn, ema);
    log.push_back(fmt::format("loss {} accuracy {}", r.loss, r.metrics.at("accuracy")));
  }
  note_error(log, [&] {
    Loader some(c, rows(9, 5), {.batch = 4, .epochs = 1, .shuffle = false, .prefetch = 0});
    group.evaluate(some, fn);
  });
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("belfry-separate-{}", ::getpid()))
          .string();
  Checkpoint checkpoint(path, group);
  checkpoint.save();
  step(rows(12));
  state();
  checkpoint.load();
  state();
  step(rows(12));
  state();
  std::filesystem::remove_all(path);
  group.set_arrays(group.arrays());
  step(rows(12));
  state();
  return log;
}

}  // namespace

TEST_CASE("on devices with memory of their own a run gives the bits of the plain one",
          "[separate]") {
  std::uint64_t runs = 0;
  for (const int towers : {1, 3, 8})
    for (const Run& run : all_runs(towers)) {
      const Outcome want = run_plain(run);
      REQUIRE(want.error.empty());
      for (std::uint64_t seed = 1; seed <= orders(run, seeds(10)); ++seed, ++runs) {
        const Outcome got = run_simulated(run, {.seed = seed}, true);
        INFO(run.label << ", " << towers << " towers, seed " << seed);
        CHECK(got.error.empty());
        CHECK(got.reports == kNothing);
        CHECK(got == want);
      }
    }
  WARN(runs << " runs on devices with memory of their own");
}

TEST_CASE("there a group does all it can do with the same bits and the same words", "[separate]") {
  for (const int accumulate : {1, 2})
    for (const int towers : {2, 3}) {
      Optimizer o = everything();
      o.accumulate = accumulate;
      Machine cpu = plain(towers);
      const Lines want = everything_of(cpu, o);
      REQUIRE(want.size() > 60);
      for (std::uint64_t seed = 1; seed <= seeds(6); ++seed)
        for (const bool collectives : {false, true}) {
          INFO(towers << " towers, seed " << seed << ", collectives " << collectives);
          Machine m = separate(towers, seed, collectives);
          CHECK(everything_of(m, o) == want);
          CHECK(m.platform->scheduler().reports() == kNothing);
        }
    }
}

TEST_CASE("there a step copies no pageable memory and its host waits once", "[separate]") {
  for (const bool collectives : {false, true})
    for (std::uint64_t seed = 1; seed <= seeds(5); ++seed) {
      Machine m = separate(3, seed, collectives);
      TowerGroup<Small> group(*m.context, everything(), m.options);
      Loader loader(*m.context, rows(24),
                    {.batch = 8, .epochs = 2, .shuffle = true, .prefetch = 1});
      Batch batch;
      Scheduler& s = m.platform->scheduler();
      for (int k = 0; loader.next(batch); ++k) {
        const auto syncs = s.syncs();
        const std::uint64_t waits = s.host_waits(), copies = m.platform->memory().pageable_copies();
        group.step(batch, [](Small& net, const Batch& b, Step& st) { return loss_of(net, b, st); });
        if (k == 0) continue;  // takes memory
        CHECK(m.platform->memory().pageable_copies() == copies);
        CHECK(s.syncs() == syncs);
        CHECK(s.host_waits() == waits + 3);  // one a tower
      }
      CHECK(s.reports() == kNothing);
    }
}

TEST_CASE("there variables are replicated, and a shared copy is a ConfigError", "[separate]") {
  Machine m = separate(2, 1, false);
  const auto transport =
      builtin().table<TransportEntry>().at("threads", "transport").make(*m.context, {});
  FlatPlan plan;
  plan.towers = 2;
  CHECK_THROWS_WITH(transport->mover(0, plan), Catch::Contains("variables = \"shared\"") &&
                                                   Catch::Contains("cpu:0") &&
                                                   Catch::Contains("replicated"));
  GroupOptions options;
  REQUIRE(options.variables == Variables::shared);
  CHECK_NOTHROW(TowerGroup<Small>(*m.context, sgd({}), options));
}
