// SPDX-License-Identifier: MIT
// Faults that users of other tools met, as tests of the engine. docs/scenarios.md lists them.
#include <chrono>
#include <cmath>
#include <limits>

#include "belfry/allreduce/round_record.h"
#include "belfry/core/error.h"
#include "belfry/ops.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/scenarios/engine_run.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

const double kTolerance = 1e-6;

Optimizer plain(double lr = 0.001) { return sgd({.lr = lr}); }
Approx near(double v) { return Approx(v).epsilon(kTolerance); }

// A model of free scalars whose gradients the test chooses: loss = sum over names of c * v.
struct Scalars : Module {
  Variable a{*this, "a", Shape{2}, Init::zeros()};
  Variable b{*this, "b", Shape{1}, Init::zeros()};
};

Tensor constant(const std::vector<double>& v, Device& d) {
  return Tensor::from(v, Shape{static_cast<std::int64_t>(v.size())}, DType::f32, d);
}

Loss weighed(const Tensor& mean, double weight) {
  return {mean, Tensor::from({weight}, Shape{}, DType::f32, mean.device())};
}

Batch rows(Context& context, int n) {
  Loader loader(context, lin_data(n), {.batch = n, .shuffle = false, .prefetch = 0});
  Batch b;
  loader.next(b);
  return b;
}

}  // namespace

TEST_CASE("B01 uneven towers: the mean over rows") {
  EngineRun three(3, 10, 10, plain()), one(1, 10, 10, plain());
  CHECK(three.steps(1) == near(0.154));
  CHECK(one.steps(1) == near(0.154));
}

TEST_CASE("B02 the step size does not depend on the number of towers") {
  for (const int towers : {1, 2, 4}) {
    EngineRun run(towers, 8, 8, plain());
    CHECK(run.steps(10) == near(0.8150715692));
  }
}

TEST_CASE("B04 B61 a variable unused everywhere for a while is skipped, with one warning",
          "[given]") {
  EngineRun run(2, 8, 8, plain());
  Context context({.towers = "cpu:2", .threads_per_tower = 1, .log = run.log});
  TowerGroupBase group(context, momentum({.lr = 0.1}).decay(0.1),
                       [] { return std::make_unique<Scalars>(); });
  group.set_parameter("b", {7});
  const Batch batch = rows(context, 4);
  int update = 0;
  const auto fn = [&](Module& m, const Batch& shard, Step& s) {
    auto& net = static_cast<Scalars&>(m);
    Tensor mean = sum(net.a);
    if (s.update <= 10 || s.update > 14) mean = add(mean, sum(net.b));
    return weighed(mean, static_cast<double>(shard.rows));
  };
  std::vector<float> before, velocity;
  const auto velocity_of_b = [&] {
    for (const GroupArray& a : group.arrays())
      if (a.kind == "velocity" && a.variable == "b") return a.values;
    return std::vector<float>{};
  };
  for (update = 1; update <= 20; ++update) {
    if (update == 11) {
      before = group.parameter("b");
      velocity = velocity_of_b();
    }
    const Report r = group.step(batch, fn);
    CHECK(r.skipped.size() == (update > 10 && update <= 14 ? 1u : 0u));
    if (update > 10 && update <= 14) {
      CHECK(group.parameter("b") == before);  // bit for bit: no decay, no momentum
      CHECK(velocity_of_b() == velocity);
    }
  }
  CHECK(group.parameter("b") != before);
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("variable b") && Contains("update 11"));
  const auto steps = group.clocks().steps;
  CHECK(steps == std::vector<std::pair<std::string, std::int64_t>>{{"a", 20}, {"b", 16}});
}

TEST_CASE("B05 a gradient on some towers only: rejected by name on all, or counted as 0",
          "[given]") {
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (const MissingOnSome missing : {MissingOnSome::reject, MissingOnSome::zero}) {
      Context context({.towers = "cpu:3", .threads_per_tower = 1}),
          single({.towers = "cpu:1", .threads_per_tower = 1});
      Optimizer o = momentum({.lr = 0.1});
      o.missing = missing;
      const auto make = [] { return std::make_unique<Scalars>(); };
      TowerGroupBase group(context, o, make, {.variables = v}), one(single, o, make);
      // Tower 1 has rows 3 and 4 of 6: b takes part in rows 1, 2, 5 and 6.
      const auto fn = [](Module& m, const Batch& b, Step& s) {
        auto& net = static_cast<Scalars&>(m);
        Tensor mean = sum(net.a);
        if (s.tower != 1) mean = add(mean, sum(net.b));
        return weighed(mean, static_cast<double>(b.rows));
      };
      const std::string before = group.parameter_hash();
      if (missing == MissingOnSome::reject) {
        CHECK_THROWS_AS(group.step(rows(context, 6), fn), GradientError);
        CHECK_THROWS_WITH(group.step(rows(context, 6), fn),
                          Contains("b (missing on tower 1 of 3)") && Contains("update 1"));
        CHECK(group.parameter_hash() == before);
        CHECK(group.clocks().update == 0);
        continue;
      }
      group.step(rows(context, 6), fn);
      one.step(rows(single, 6), [](Module& m, const Batch& b, Step&) {
        auto& net = static_cast<Scalars&>(m);
        const Tensor share = constant({4.0 / 6}, b["x"].device());
        return weighed(add(sum(net.a), sum(mul(net.b, share))), 6);
      });
      CHECK(group.parameter("b")[0] == Approx(one.parameter("b")[0]).epsilon(1e-6));
      CHECK(group.parameter("b")[0] == near(-0.1 * 4 / 6));
      CHECK(group.parameter("a") == one.parameter("a"));
    }
}

TEST_CASE("B05 every variable missing everywhere is a GradientError") {
  EngineRun run(2, 8, 8, plain());
  const auto nothing = [](Module&, const Batch& b, Step&) { return mse(b["x"], b["y"]); };
  CHECK_THROWS_WITH(run.step(nothing), Contains("no variable has a gradient") && Contains("w"));
}

TEST_CASE("B07 F32 regularisation counts once, whatever the towers and the split") {
  for (const int towers : {1, 2, 4})
    for (const int n : {8, 7}) {
      Context context({.towers = "cpu:" + std::to_string(towers), .threads_per_tower = 1});
      const auto make = [] { return std::make_unique<Lin>(); };
      // 0.01 w^2 is l2 = 0.02: gradient 0.02 w, term 0.01 w^2.
      TowerGroupBase penalised(context, plain(1).with_l2(0.02), make),
          decayed(context, plain(0.1).decay(0.1), make);
      penalised.set_parameter("w", {3});
      decayed.set_parameter("w", {3});
      const auto data = [](double slope) {
        return [slope](Module& m, const Batch& b, Step&) {
          const Tensor w = static_cast<Lin&>(m).w;
          Device& d = w.device();
          return weighed(
              add(sum(mul(w, constant({slope}, d))), sum(constant({0.5 - 3 * slope}, d))),
              static_cast<double>(b.rows));
        };
      };
      const Report r = penalised.step(rows(context, n), data(1));
      CHECK(r.loss() == near(0.59));
      CHECK(penalised.parameter("w")[0] == near(3 - 1.06));
      decayed.step(rows(context, n), data(0));
      CHECK(decayed.parameter("w")[0] == near(2.97));
    }
}

TEST_CASE("B13 a last batch smaller than the towers is trained, or dropped") {
  EngineRun all(2, 9, 2, plain());
  CHECK(all.steps(5) == near(0.6457747010));
  EngineRun dropped(2, 9, 2, plain(), true);
  CHECK(dropped.steps(4) == near(0.3839793568));
}

TEST_CASE("B19 accumulation: micro-batches count their rows, the tail keeps its own weight") {
  EngineRun a(2, 8, 8, plain().accumulating(2));
  const Report r = a.step();
  CHECK(a.w() == near(0.102));
  CHECK(r.units == 4);
  CHECK(r.update == 1);
  EngineRun b(1, 10, 8, plain().accumulating(4));
  CHECK(b.steps(1) == near(0.102));
  CHECK(b.steps(1) == near(0.445538));
  EngineRun more(2, 6, 6, plain().accumulating(50));  // fewer rows than micro-batches
  EngineRun whole(1, 6, 6, plain());
  CHECK(more.steps(1) == near(whole.steps(1)));
  CHECK_THROWS_AS(EngineRun(1, 8, 8, plain().accumulating(0)), ConfigError);
}

TEST_CASE("B20 clipping acts once, on the averaged gradient, over present variables") {
  const auto fn = [](Module& m, const Batch& b, Step& s) {  // tower A (3, 4), tower B (-3, 4)
    auto& net = static_cast<Scalars&>(m);
    const double x = s.tower == 0 ? 3 : -3;
    return weighed(sum(mul(net.a, constant({x, 4}, b["x"].device()))), 1);
  };
  for (const auto& [limit, y] : std::vector<std::pair<double, double>>{{1, 1}, {10, 4}, {4, 4}}) {
    Context context({.towers = "cpu:2", .threads_per_tower = 1});
    TowerGroupBase group(context, plain(1).clip_global_norm(limit),
                         [] { return std::make_unique<Scalars>(); });
    const Report r = group.step(rows(context, 2), fn);
    CHECK(r.norm == 4.0);
    CHECK(group.parameter("a")[0] == 0.f);
    CHECK(group.parameter("a")[1] == static_cast<float>(-y));
    CHECK(r.skipped == std::vector<std::string>{"b"});
  }
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  TowerGroupBase group(context, plain(1).clip_global_norm(1),
                       [] { return std::make_unique<Scalars>(); });
  const Report zero = group.step(rows(context, 2), [](Module& m, const Batch& b, Step&) {
    return weighed(sum(mul(static_cast<Scalars&>(m).a, constant({0, 0}, b["x"].device()))), 1);
  });
  CHECK(zero.norm == 0.0);
  CHECK(zero.clip == 1.0);
  CHECK(group.parameter("a") == std::vector<float>{0, 0});
}

TEST_CASE("B23 F43 the schedule counts updates, for any number of towers and micro-batches") {
  for (const int towers : {1, 4})
    for (const std::int64_t k : {1, 4}) {
      EngineRun linear_run(towers, 8, 8, sgd({.lr = linear(0.1 * 1e-4, "100u")}).accumulating(k));
      EngineRun step_run(towers, 8, 8, sgd({.lr = step(0.1 * 1e-4, "20u")}).accumulating(k));
      for (int u = 0; u < 100; ++u) {
        CHECK(linear_run.step().lr == Approx(0.1e-4 * (1 - u / 100.0)));
        if (u <= 20) CHECK(step_run.step().lr == Approx(u < 20 ? 0.1e-4 : 0.01e-4));
      }
    }
}

TEST_CASE("B25 a loss that is not finite on one tower changes nothing and is named", "[given]") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EngineRun run(4, 8, 8, momentum({.lr = 0.001}));
    run.steps(2);
    const std::string before = run.group.parameter_hash();
    const auto fn = [bad](Module& m, const Batch& b, Step& s) {
      Loss loss = lin_loss(m, b, s);
      if (s.tower == 2 && s.update == 3)
        loss.mean =
            sum(mul(loss.mean, Tensor::from({bad}, Shape{}, DType::f32, loss.mean.device())));
      return loss;
    };
    CHECK_THROWS_AS(run.step(fn), NumericError);
    CHECK(run.group.parameter_hash() == before);
    CHECK(run.group.clocks().update == 2);
    EngineRun again(4, 8, 8, momentum({.lr = 0.001}));
    again.steps(2);
    CHECK_THROWS_WITH(again.step(fn), Contains("tower 2") && Contains("variable w") &&
                                          Contains("update 3") &&
                                          Contains("loss that is not finite"));
  }
}

TEST_CASE("a NaN in the last bucket with accumulation leaves everything as after update 2",
          "[given]") {
  for (const Variables v : {Variables::shared, Variables::replicated}) {
    Context context({.towers = "cpu:3", .threads_per_tower = 1});
    TowerGroupBase group(context, adam({.lr = 1e-2}).accumulating(2), mlp(),
                         {.variables = v, .first_bucket_bytes = 1, .bucket_bytes = 1});
    for (std::uint64_t u = 0; u < 2; ++u) group.step(batch_of(context, 30, u), classify);
    const auto arrays = group.arrays();
    const auto clocks = group.clocks().steps;
    const auto poisoned = [&](Module& m, const Batch& b, Step& s) {
      const bool poison = s.tower == 2 && s.update == 3 && b.first_row > 20;
      return classify(m, poison ? with_value(b, 63, std::numeric_limits<float>::quiet_NaN()) : b,
                      s);
    };
    CHECK_THROWS_WITH(group.step(batch_of(context, 30, 9), poisoned),
                      Contains("tower 2") && Contains("hidden.weight") &&
                          Contains("update 3"));  // its end is the last bucket
    CHECK(distance(group.arrays(), arrays) == 0);
    CHECK(group.clocks().steps == clocks);
    CHECK(group.clocks().update == 2);
  }
}

TEST_CASE("B26 a label outside the classes is a DataError with row, label and range") {
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  TowerGroupBase group(context, plain(), mlp());
  Batch batch = batch_of(context, 8);
  batch["label"].data<std::int32_t>()[5] = 10;
  const std::string before = group.parameter_hash();
  CHECK_THROWS_AS(group.step(batch, classify), DataError);
  CHECK_THROWS_WITH(group.step(batch, classify),
                    Contains("10") && Contains("[0, 10)") && Contains("tower 1"));
  CHECK(group.parameter_hash() == before);
}

TEST_CASE("B34 a data set smaller than one batch trains one short update an epoch") {
  EngineRun run(2, 3, 8, plain());
  CHECK(run.steps(1) == near(0.01866667));
  CHECK_THROWS_WITH(EngineRun(2, 3, 8, plain(), true), Contains("3") && Contains("8"));
}

TEST_CASE("B61 500 variables: what the presence check costs", "[given]") {
  struct Many : Module {
    ModuleList<Linear> layers{*this, "l"};
    Many() {
      for (int i = 0; i < 500; ++i) layers.add(4, 4, Activation::none, false);
    }
  };
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  TowerGroupBase group(context, plain(1e-6), [] { return std::make_unique<Many>(); });
  const Batch batch = rows(context, 2);
  const auto fn = [](Module& m, const Batch& b, Step&) {
    const Tensor x = Tensor::zeros(Shape{1, 4}, DType::f32, b["x"].device());
    Tensor total;
    for (auto& layer : static_cast<Many&>(m).layers) {
      const Tensor y = sum((*layer)(x));
      total = total.defined() ? add(total, y) : y;
    }
    return weighed(total, 1);
  };
  double best = 1e9;
  for (int i = 0; i < 20; ++i) best = std::min(best, group.step(batch, fn).seconds);
  // The check is one bit a variable, set, gathered and decided: measured alone, without the ops.
  HostPart part;
  part.called = 1;
  const std::vector<char> trainable(500, 1);
  double check = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int v = 0; v < 500; ++v) part.set(v);
    const auto bytes = part.encode();
    const Decision d = decide({HostPart::decode(bytes), HostPart::decode(bytes)}, group.index(),
                              trainable, MissingOnSome::reject);
    check = std::min(
        check, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    REQUIRE(d.present.size() == 500);
  }
  INFO("update " << best * 1e6 << " us, check " << check * 1e6 << " us");
  CHECK(check < 0.02 * best);
}

TEST_CASE("B62 a tied variable is one variable: one mean, one update, one norm") {
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  TowerGroupBase group(context, momentum({.lr = 0.1}).clip_global_norm(100),
                       [] { return std::make_unique<Lin>(); });
  const auto fn = [](Module& m, const Batch& b, Step&) {
    const Tensor w = static_cast<Lin&>(m).w;
    Device& d = w.device();
    return weighed(
        add(sum(mul(w, constant({2}, d))), sum(mul(static_cast<Lin&>(m).w, constant({3}, d)))),
        static_cast<double>(b.rows));
  };
  const Report r = group.step(rows(context, 4), fn);
  CHECK(r.norm == near(5));
  CHECK(group.parameter("w")[0] == near(-0.5));
  CHECK(group.index().parameters() == 1);
  struct Twice : Module {
    Variable a{*this, "E", Shape{1}, Init::zeros()}, b{*this, "E", Shape{1}, Init::zeros()};
  };
  CHECK_THROWS_WITH(Twice(), Contains("'E' twice"));
}

TEST_CASE("B64 all towers see the newest weights, assigned ones included") {
  for (const Variables v : {Variables::shared, Variables::replicated}) {
    EngineRun run(2, 8, 8, plain(), false, {.variables = v});
    CHECK(run.steps(1) == near(0.102));
    const TowerGradients g = run.group.gradients(rows(run.context, 8), lin_loss);
    CHECK(g.towers[1][0].gradient.item() == near(-165.126));
    CHECK(run.steps(1) == near(0.198798));
    run.group.set_parameter("w", {1});
    const TowerGradients h = run.group.gradients(rows(run.context, 8), lin_loss);
    CHECK(h.towers[0][0].gradient.item() == near(-15));  // mean of 2 x^2 over 1..4, times -1
    CHECK(h.towers[1][0].gradient.item() == near(-87));
  }
}
