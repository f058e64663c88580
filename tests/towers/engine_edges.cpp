// SPDX-License-Identifier: MIT
// Edges of the engine: inputs that do not fit, units without weight, arrays set from outside.
#include <atomic>
#include <cmath>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/ops.h"
#include "belfry/optim/rules/adadelta.h"
#include "belfry/optim/rules/adagrad.h"
#include "belfry/optim/rules/lamb.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/lin.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

ContextOptions cpu(int n, Executor e = Executor::in_place) {
  return {.towers = "cpu:" + std::to_string(n), .seed = 3, .threads_per_tower = 1, .executor = e};
}

Tensor scalar(double v, const Tensor& like) {
  return Tensor::from({v}, Shape{}, DType::f32, like.device());
}

}  // namespace

TEST_CASE("norms and squares see the same units, accumulated ones too") {
  for (const int n : {1, 2})
    for (const Variables v : {Variables::shared, Variables::replicated}) {
      Report reports[2];
      for (const bool squares : {false, true}) {
        Context context(cpu(n));
        TowerGroupBase towers(context,
                              momentum().accumulating(3).with_statistics(
                                  squares ? Statistics::squares : Statistics::norms),
                              mlp(), {.variables = v});
        reports[squares] = towers.step(batch_of(context, 30), classify);
      }
      CHECK(reports[0].unit_norm2 == reports[1].unit_norm2);
      CHECK(reports[0].mean_norm2 == reports[1].mean_norm2);
      CHECK(reports[0].units == 3 * n);
      CHECK(reports[0].unit_norm2 > reports[0].mean_norm2);
    }
}

TEST_CASE(
    "a tower without memory for a larger batch is named; nothing changes, the group goes on") {
  for (const int n : {1, 2, 4})
    for (const Variables v : {Variables::shared, Variables::replicated})
      for (const bool capture : {false, true}) {
        INFO(n << " towers" << (capture ? ", recorded" : ""));
        GroupOptions options;
        options.variables = v;
        options.capture = capture;
        Context context(cpu(n)), other(cpu(n));
        TowerGroupBase towers(context, momentum(), mlp(), options),
            straight(other, momentum(), mlp(), options);
        const Batch small = batch_of(context, 8), large = batch_of(context, 48),
                    same = batch_of(other, 8);
        for (int i = 0; i < 2; ++i) {
          towers.step(small, classify);
          straight.step(same, classify);
        }
        Arena& arena = context.device(n - 1).arena();
        arena.set_limit(arena.stats().reserved_bytes);
        CHECK_THROWS_WITH(towers.step(large, classify),
                          Contains("out of memory on ") && Contains("bytes wanted") &&
                              Contains("tower " + std::to_string(n - 1) + ", update 3"));
        CHECK(towers.parameter_hash() == straight.parameter_hash());
        towers.step(small, classify);
        straight.step(same, classify);
        CHECK(towers.parameter_hash() == straight.parameter_hash());
        arena.set_limit(std::size_t{1} << 40);
        for (const std::int64_t update : {4, 5, 6})
          CHECK(towers.step(large, classify).update == update);
      }
}

TEST_CASE("a metric, a weight or a batch that does not fit changes nothing and the group goes on") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum(), mlp());
  const std::string before = towers.parameter_hash();
  const auto with = [](auto change) {
    return [change](Module& m, const Batch& b, Step& s) {
      Loss loss = classify(m, b, s);
      change(loss, b, s);
      return loss;
    };
  };
  const Batch batch = batch_of(context, 20);
  CHECK_THROWS_WITH(towers.step(batch, with([](Loss& l, const Batch& b, Step& s) {
                                  s.report("x", {b["image"], l.weight});
                                })),
                    Contains("step.report(\"x\")"));
  CHECK_THROWS_AS(towers.step(batch, with([](Loss&, const Batch&, Step& s) { s.report("y", {}); })),
                  GradientError);
  CHECK_THROWS_AS(
      towers.step(batch, with([](Loss& l, const Batch& b, Step&) { l.weight = b["image"]; })),
      GradientError);
  CHECK_THROWS_AS(towers.step(batch, with([](Loss& l, const Batch&, Step&) { l.mean = Tensor(); })),
                  GradientError);
  Batch wrong = batch.slice(0, 20);
  wrong.rows = 40;
  CHECK_THROWS_AS(towers.step(wrong, classify), Error);
  CHECK_THROWS_AS(towers.step(Batch(), classify), DataError);
  CHECK(towers.parameter_hash() == before);
  CHECK(towers.clocks().attempts == 0);
  CHECK(towers.step(batch, classify).update == 1);
}

TEST_CASE("a tensor kept from an earlier pass is an error, detached it is a constant") {
  Context context(cpu(1));
  TowerGroupBase towers(context, momentum().accumulating(2), mlp());
  Tensor kept;
  bool cut = false;
  const auto recurrent = [&](Module& m, const Batch& b, Step&) {
    auto& net = static_cast<Mlp&>(m);
    Tensor hidden = net.hidden(b["image"]);
    if (kept.defined()) hidden = add(hidden, cut ? kept.detach() : kept);
    kept = hidden;
    return cross_entropy(net.head(hidden), b["label"]);
  };
  CHECK_THROWS_WITH(towers.step(batch_of(context, 20), recurrent),
                    Contains("another pass") && Contains("detach()"));
  kept = Tensor();
  cut = true;
  CHECK(towers.step(batch_of(context, 20), recurrent).units == 2);
}

TEST_CASE("apply() checks names, shapes, squares and frozen variables before anything moves") {
  Context context(cpu(2));
  TowerGroupBase towers(context, adam({.second_moment = "towers"}).freeze("head.bias"), mlp());
  const std::string before = towers.parameter_hash();
  const auto good = [&] {
    const TowerGradients g = towers.gradients(batch_of(context, 20), classify);
    return average_gradients(g.towers, {.include_square = true, .weights = g.weights});
  };
  Device& d = context.device(0);
  AveragedGradients a = good();
  a.square[0].gradient = Tensor::zeros(Shape{3}, DType::f32, d);
  CHECK_THROWS_WITH(towers.apply(a),
                    Contains("square of '" + a.mean[0].variable + "'") && Contains("[3]"));
  a = good();
  a.square.pop_back();
  CHECK_THROWS_WITH(towers.apply(a), Contains("include_square"));
  a = good();
  a.mean.emplace_back(Tensor::zeros(Shape{10}, DType::f32, d), "head.bias");
  a.square.emplace_back(Tensor::zeros(Shape{10}, DType::f32, d), "head.bias");
  CHECK_THROWS_WITH(towers.apply(a), Contains("head.bias"));
  a = good();
  a.mean[0].variable = "nobody";
  CHECK_THROWS_WITH(towers.apply(a), Contains("nobody") && Contains("a variable of the model"));
  CHECK(towers.parameter_hash() == before);
  CHECK(towers.apply(good()).update == 1);
}

TEST_CASE("a unit of weight 0 contributes nothing, not even its NaN", "[given]") {
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (const std::int64_t k : {1, 2}) {
      Context context(cpu(3)), two(cpu(1));
      const Optimizer o =
          momentum({.lr = 0.1}).with_statistics(Statistics::squares).accumulating(k);
      TowerGroupBase towers(context, o, mlp(), {.variables = v});
      const auto fn = [](Module& m, const Batch& b, Step& s) {
        Loss loss = classify(m, b, s);
        if (s.tower != 1) return loss;
        loss.mean = mul(loss.mean, scalar(std::numeric_limits<double>::infinity(), loss.mean));
        loss.weight = scalar(0, loss.mean);
        return loss;
      };
      const Report r = towers.step(batch_of(context, 30), fn);
      CHECK(r.weight == 20);
      CHECK(r.units == 2 * k);
      CHECK(std::isfinite(r.loss()));
      CHECK(std::isfinite(r.unit_norm2));
      for (const float x : towers.parameter("head.weight")) REQUIRE(std::isfinite(x));
      const auto none = [](Module& m, const Batch& b, Step& s) {
        Loss loss = classify(m, b, s);
        loss.weight = scalar(0, loss.mean);
        return loss;
      };
      CHECK_THROWS_AS(towers.step(batch_of(context, 30), none), NumericError);
    }
}

TEST_CASE("an update without weight is refused and leaves nothing behind") {
  const auto unless_zero = [](Module& m, const Batch& b, Step&) {
    return cross_entropy(static_cast<Mlp&>(m).forward(b["image"]), b["label"], 0);
  };
  const auto trained = [&](int n, const Optimizer& optimizer, Variables variables, bool refuse) {
    Context context(cpu(n));
    TowerGroupBase group(context, optimizer, mlp(), {.variables = variables});
    Loader none(context,
                memory_dataset(std::vector<float>(12 * 64, 0.5f), Shape{64},
                               std::vector<std::int32_t>(12, 0), 10),
                {.batch = 12, .prefetch = 0});
    Batch zeros;
    none.next(zeros);
    if (refuse) {
      CHECK_THROWS_AS(group.step(zeros, unless_zero), NumericError);
      CHECK_THROWS_WITH(group.step(zeros, unless_zero), Contains("no valid target"));
    }
    for (const std::uint64_t seed : {5, 6})
      CHECK(group.step(batch_of(context, 12, seed), unless_zero).norm > 0);
    return group.parameter_hash();
  };
  for (const int n : {1, 2})
    for (const Variables v : {Variables::shared, Variables::replicated})
      for (const std::int64_t accumulate : {1, 2, 3})
        for (const bool strict : {false, true}) {
          INFO(n << " towers, accumulate " << accumulate << ", strict " << strict);
          Optimizer optimizer = momentum({.lr = 0.1}).clip_global_norm(1).accumulating(accumulate);
          if (strict) optimizer.strict(4);
          CHECK(trained(n, optimizer, v, true) == trained(n, optimizer, v, false));
        }
}

TEST_CASE("the guard names only towers that took part") {
  Context context(cpu(4));
  TowerGroupBase towers(context, momentum(), mlp());
  const auto poison = [](int tower) {
    return [tower](Module& m, const Batch& b, Step& s) {
      Loss loss = classify(m, b, s);
      if (s.tower == tower) loss.mean = mul(loss.mean, scalar(std::nan(""), loss.mean));
      return loss;
    };
  };
  CHECK_THROWS_WITH(towers.step(batch_of(context, 40), poison(3)), Contains("on tower 3,"));
  CHECK_THROWS_WITH(towers.step(batch_of(context, 2), poison(0)), Contains("on tower 0,"));
}

TEST_CASE("a loss that overflows while its gradient does not is refused") {
  for (const Variables v : {Variables::shared, Variables::replicated}) {
    Context context(cpu(2));
    TowerGroupBase towers(context, momentum(), mlp(), {.variables = v});
    const std::vector<float> before = towers.parameter("head.weight");
    const auto far = [](Module& m, const Batch& b, Step& s) {
      Loss loss = classify(m, b, s);
      if (s.tower == 1) {
        const Tensor large = scalar(3e38, loss.mean);
        loss.mean = add(add(loss.mean, large), large);
      }
      return loss;
    };
    CHECK_THROWS_WITH(towers.step(batch_of(context, 20), far),
                      Contains("the loss is not finite, though its gradient is; nothing was"));
    CHECK(towers.parameter("head.weight") == before);
    CHECK(std::isfinite(towers.step(batch_of(context, 20), classify).loss()));
  }
}

TEST_CASE("averaged() and squares() leave skipped variables out") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum().with_statistics(Statistics::squares), mlp());
  towers.step(batch_of(context, 20), classify);
  CHECK(towers.squares().size() == 4);
  const auto headless = [](Module& m, const Batch& b, Step&) {
    const Tensor h = static_cast<Mlp&>(m).hidden(b["image"]);
    return mse(h, Tensor::zeros(h.shape(), DType::f32, h.device()));
  };
  CHECK(towers.averaged(batch_of(context, 20), headless).size() == 2);
  CHECK(towers.squares().size() == 2);
}

TEST_CASE("an average of parameters that are assigned starts at their values") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum().with_ema(0.99).freeze("head.*"), mlp());
  towers.set_parameter("head.bias", std::vector<float>(10, 5));
  for (const GroupArray& a : towers.arrays())
    if (a.kind == "ema" && a.variable == "head.bias") CHECK(a.values == std::vector<float>(10, 5));
}

TEST_CASE("replicated and lazy: an op that fails when it runs is an error, then the end") {
  Context context(cpu(3, Executor::lazy));
  {
    TowerGroupBase towers(context, momentum(), mlp(), {.variables = Variables::replicated});
    const auto failing = [](Module& m, const Batch& b, Step& s) {
      Loss loss = classify(m, b, s);
      if (s.tower == 1)
        loss.mean.device().main().run({}, [] { throw std::runtime_error("kernel failed"); });
      return loss;
    };
    CHECK_THROWS_AS(towers.step(batch_of(context, 30), failing), Error);
    CHECK_THROWS_AS(towers.step(batch_of(context, 30), classify), CommError);
  }
  SUCCEED("the destructor returned");
}

TEST_CASE("weights far from 1 average like any others") {
  Context context(cpu(2));
  const auto pair = [&](int t, double v) {
    return GradientList{{Tensor::from({v}, Shape{1}, DType::f32, context.device(t)), "w"}};
  };
  for (const double w : {1e-50, 1.0, 1e39, 1e300}) {
    const AveragedGradients a =
        average_gradients({pair(0, 1), pair(1, 3)}, {.include_square = true, .weights = {w, w}});
    CHECK(a.mean[0].gradient.item() == Approx(2).epsilon(1e-6));
    CHECK(a.square[0].gradient.item() == Approx(5).epsilon(1e-6));
  }
}

TEST_CASE("a shape whose size overflows is an error") {
  CHECK_THROWS_WITH((Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}), Contains("too large"));
}

TEST_CASE("in a step no tensor moves to the device of another tower", "[given]") {
  for (const int towers : {1, 2}) {
    Context context({.towers = "cpu:" + std::to_string(towers), .threads_per_tower = 1});
    TowerGroupBase group(context, sgd({.lr = 0.1}), mlp());
    const auto apart = make_cpu_device(9, 1, Executor::in_place);
    const Batch batch = batch_of(context, 8);
    std::atomic<int> moved{0};
    const auto step_to = [&](const std::function<Device&(int)>& where) {
      return [&, where](Module& m, const Batch& b, Step& s) {
        const Tensor there = b["image"].to(where(s.tower));
        ++moved;
        return classify(m, b, s);
      };
    };
    const auto other = step_to([&](int t) -> Device& { return context.device(towers - 1 - t); });
    const auto own = step_to([&](int t) -> Device& { return context.device(t); });
    if (towers == 1) {
      CHECK_NOTHROW(group.step(batch, other));  // its own
      CHECK_NOTHROW(group.step(batch, step_to([&](int) -> Device& { return *apart; })));
      continue;
    }
    CHECK_THROWS_AS(group.step(batch, other), DeviceError);
    CHECK_THROWS_WITH(group.step(batch, other),
                      Contains("the device of another tower") &&
                          Contains("found " + name_of(context.device(1).id())) &&
                          Contains("expected " + name_of(context.device(0).id())) &&
                          Contains("[rank 0, tower 0, update 1]"));
    Loader rows(context, blobs(8), {.batch = 8, .shuffle = false});
    CHECK_THROWS_AS(group.evaluate(rows, other), DeviceError);
    CHECK(moved == 0);
    CHECK_NOTHROW(group.step(batch, own));
    CHECK(group.clocks().update == 1);
    // Between updates one thread drives both.
    CHECK_NOTHROW(batch["image"].on(context.device(0)).to(context.device(1)));
  }
}

TEST_CASE("a gradient whose square is no f32: every rule with a second moment stands still there") {
  for (const Optimizer& o :
       {adam({.lr = 0.1}), adamw({.lr = 0.1, .weight_decay = 0}), rmsprop({.lr = 0.1}),
        adagrad({.lr = 0.1}), adadelta({.lr = 1}), lamb({.lr = 0.1, .weight_decay = 0})}) {
    INFO(o.rule->name());
    Context context(cpu(1));
    TowerGroupBase towers(context, o, mlp());
    const auto apply = [&](double of_first) {
      AveragedGradients a;
      std::vector<double> values(10, 1.0);
      values[0] = of_first;
      a.mean.emplace_back(Tensor::from(values, Shape{10}, DType::f32, context.device(0)),
                          "head.bias");
      towers.set_parameter("head.bias", std::vector<float>(10, 1.f));
      towers.apply(a);
      return towers.parameter("head.bias");
    };
    CHECK(apply(1)[0] != 1);
    apply(1e20);  // the guard lets it pass: it is finite
    const std::vector<float> after = apply(1);
    CHECK(after[0] == 1);
    CHECK(after[1] != 1);
    CHECK(std::isfinite(after[1]));
    CHECK_THROWS_AS(apply(std::numeric_limits<double>::infinity()), NumericError);
  }
}
