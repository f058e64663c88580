// SPDX-License-Identifier: MIT
// reduce = "strict": the same bits for any number of towers up to the number of virtual shards.
#include <filesystem>
#include <random>

#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/correct.h"
#include "belfry/core/error.h"
#include "belfry/optim/rules/lamb.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"
#include "belfry/towers/checkpoint/checkpoint.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

struct Plan {
  Optimizer optimizer;
  std::int64_t rows = 43, batch = 43, updates = 4;
  double dropout = 0.2;
  int ignore_below = 0;  // rows of the batch whose label counts for nothing
};

struct Result {
  std::string hash;
  std::vector<double> numbers;  // losses, metrics, norms, evaluation
  std::vector<float> squares;
  bool operator==(const Result& o) const {
    return hash == o.hash && numbers == o.numbers && squares == o.squares;
  }
};

Result run(const Plan& plan, int towers, Variables variables = Variables::shared,
           Executor executor = Executor::in_place) {
  Context context({.towers = "cpu:" + std::to_string(towers), .seed = 4, .executor = executor});
  GroupOptions options;
  options.variables = variables;
  options.first_bucket_bytes = options.bucket_bytes = 16384;
  TowerGroupBase group(context, plan.optimizer, mlp(plan.dropout), options);
  Loader loader(context, blobs(plan.rows), {.batch = plan.batch, .epochs = 100});
  Result out;
  Batch batch;
  for (int k = 0; k < plan.updates && loader.next(batch); ++k) {
    const Report r = group.step(batch, [&](Module& m, const Batch& b, Step& step) {
      const Tensor logits = static_cast<Mlp&>(m).forward(b["image"]);
      step.report("accuracy", correct(logits, b["label"]));
      return cross_entropy(logits, b["label"],
                           plan.ignore_below > 0 ? std::optional<std::int32_t>(3) : std::nullopt);
    });
    out.numbers.insert(out.numbers.end(), {r.loss(), r.metrics.at("accuracy"), r.norm, r.weight});
  }
  Loader rows(context, blobs(19), {.batch = 11, .epochs = 1, .shuffle = false});
  out.numbers.push_back(group.evaluate(rows, classify).loss);
  if (plan.optimizer.statistics == Statistics::squares) {
    for (const GroupArray& a : group.squares())
      out.squares.insert(out.squares.end(), a.values.begin(), a.values.end());
    out.numbers.push_back(group.noise_scale());
  }
  out.hash = group.parameter_hash();
  return out;
}

void same_for_all(Plan plan, int shards) {
  plan.optimizer.strict(shards);
  const Result want = run(plan, 1);
  for (int n = 2; n <= shards; n = n == 4 ? 8 : n + 1) {
    INFO(n << " towers of " << shards << " shards");
    CHECK(run(plan, n) == want);
    CHECK(run(plan, n, Variables::replicated) == want);
  }
  const int last = std::min(shards, 3);
  CHECK(run(plan, 1, Variables::replicated) == want);
  for (const Executor e : {Executor::lazy, Executor::threaded}) {
    CHECK(run(plan, last, Variables::shared, e) == want);
    CHECK(run(plan, last, Variables::replicated, e) == want);
  }
}

}  // namespace

TEST_CASE("strict: hash, losses, metrics and norms do not depend on the number of towers") {
  for (const int shards : {8, 5, 6}) {
    same_for_all({momentum({.lr = 0.1})}, shards);
    same_for_all({adam({.lr = 0.01}).clip_global_norm(0.3).with_l2(0.01)}, shards);
  }
  same_for_all({lamb({.lr = 0.02}).clip_global_norm(0.3).with_ema(0.9)}, 8);
}

TEST_CASE("strict: with accumulation, squares and noise statistics") {
  for (const std::int64_t k : {2, 3})
    same_for_all({adam({.lr = 0.01}).with_statistics(Statistics::squares).accumulating(k)}, 8);
  same_for_all({momentum({.lr = 0.1}).with_statistics(Statistics::squares)}, 5);
  Plan towers{adam({.lr = 0.01, .second_moment = "towers"})};
  same_for_all(towers, 8);
}

TEST_CASE("strict: one pass without statistics, short last batches, fewer rows than shards") {
  Plan fused{momentum({.lr = 0.1})};
  fused.optimizer.guard = false;
  same_for_all(fused, 8);
  Plan tail{momentum({.lr = 0.1})};
  tail.batch = 20;  // 20, 20, 3
  same_for_all(tail, 8);
  tail.optimizer.accumulate = 2;
  same_for_all(tail, 8);
  Plan few{momentum({.lr = 0.1})};
  few.rows = few.batch = 3;
  same_for_all(few, 8);
}

TEST_CASE("strict: rows whose labels do not count") {
  Plan plan{momentum({.lr = 0.1}).with_statistics(Statistics::squares)};
  plan.batch = 9;  // some shards have no valid label at all
  plan.ignore_below = 1;
  same_for_all(plan, 8);
}

TEST_CASE("strict: a gradient must be there in all virtual shards or in none") {
  struct Gated : Mlp {
    Variable gate{*this, "gate", Shape{10}, Init::constant(1)};
  };
  for (const MissingOnSome missing : {MissingOnSome::reject, MissingOnSome::zero}) {
    std::string want;
    for (const int n : {1, 2, 3, 8}) {
      Context context({.towers = "cpu:" + std::to_string(n), .seed = 4});
      Optimizer o = sgd({.lr = 0.1}).strict(8);
      o.missing = missing;
      TowerGroupBase group(context, o, [] { return std::make_unique<Gated>(); });
      const std::string before = group.parameter_hash();
      const Batch batch = batch_of(context, 16);
      const auto step = [&](int from) {
        group.step(batch, [&](Module& m, const Batch& b, Step&) {
          auto& net = static_cast<Gated&>(m);
          Tensor logits = net.forward(b["image"]);
          if (b.first_row >= from) logits = mul(logits, net.gate);
          return cross_entropy(logits, b["label"]);
        });
      };
      INFO(n << " towers");
      if (missing == MissingOnSome::reject) {
        CHECK_THROWS_WITH(step(10),
                          Contains("gate (missing on virtual shards 0, 1, 2, 3, 4 of 8)"));
        CHECK(group.parameter_hash() == before);
        CHECK_NOTHROW(step(99));
        CHECK_NOTHROW(step(0));
      } else {
        step(10);
      }
      if (n == 1) want = group.parameter_hash();
      CHECK(group.parameter_hash() == want);
    }
  }
}

TEST_CASE("strict: a NaN is found in whichever leaf it is; more towers than shards are refused") {
  for (const int n : {1, 3, 8}) {
    Context context({.towers = "cpu:" + std::to_string(n), .seed = 4});
    TowerGroupBase group(context, sgd({.lr = 0.1}).strict(8), mlp());
    Batch batch = batch_of(context, 16);
    batch["image"].data<float>()[64 * 9] = std::nanf("");  // row 9: shard 4
    CHECK_THROWS_WITH(group.step(batch, classify), Contains("hidden.weight"));
  }
  Context context({.towers = "cpu:5", .seed = 4});
  CHECK_THROWS_WITH(TowerGroupBase(context, sgd({.lr = 0.1}).strict(4), mlp()),
                    Contains("5 towers, 4 virtual shards"));
}

TEST_CASE("strict: apply() and the stages work on any number of towers") {
  for (const int n : {1, 3}) {
    Context context({.towers = "cpu:" + std::to_string(n), .seed = 4});
    TowerGroupBase group(context, sgd({.lr = 0.1}).strict(8), mlp());
    const Batch batch = batch_of(context, 16);
    const auto g = group.gradients(batch, classify);
    const auto mean = average_gradients(g.towers, {.weights = g.weights});
    const double before = static_cast<double>(group.parameter("head.bias")[0]);
    double step = 0;
    for (const GradientPair& p : mean.mean)
      if (p.variable == "head.bias") step = p.gradient.to_vector()[0];
    group.apply(mean);
    CHECK(static_cast<double>(group.parameter("head.bias")[0]) ==
          Approx(before - 0.1 * step).epsilon(1e-6));
  }
}

TEST_CASE("strict: stopped anywhere and resumed on another number of towers, 50 times", "[slow]") {
  const auto train = [](TowerGroupBase& group, Loader& loader, std::int64_t to) {
    Batch batch;
    while (group.clocks().update < to && loader.next(batch)) group.step(batch, classify);
  };
  constexpr std::int64_t kUpdates = 24;
  const auto optimizer = [] {
    return adam({.lr = 0.01}).clip_global_norm(0.5).accumulating(2).strict(8);
  };
  const auto data = blobs(75);
  const LoaderOptions loader_options{.batch = 20, .epochs = 10};
  std::string want;
  std::mt19937_64 random(11);
  constexpr int kTowers[] = {1, 2, 3, 4, 8};
  for (int k = 0; k <= 50; ++k) {
    const std::int64_t stop = 1 + static_cast<std::int64_t>(random() % (kUpdates - 1));
    const int first = kTowers[random() % 5], second = kTowers[random() % 5];
    TestFolder folder;
    GroupOptions options;
    options.variables = random() % 2 == 0 ? Variables::shared : Variables::replicated;
    std::int64_t position = 0;
    {
      Context context({.towers = "cpu:" + std::to_string(first), .seed = 4});
      Loader loader(context, data, loader_options);
      TowerGroupBase group(context, optimizer(), mlp(0.2), options);
      train(group, loader, k == 0 ? kUpdates : stop);
      if (k == 0) {
        want = group.parameter_hash();
        continue;
      }
      Checkpoint(folder / "model", group).save();
      position = loader.position();
    }
    Context context({.towers = "cpu:" + std::to_string(second), .seed = 4});
    Loader loader(context, data, loader_options);
    TowerGroupBase group(context, optimizer(), mlp(0.2), options);
    Checkpoint(folder / "model", group).load();
    loader.seek(position);
    train(group, loader, kUpdates);
    INFO("stopped at " << stop << ", " << first << " -> " << second << " towers");
    CHECK(group.parameter_hash() == want);
  }
}
