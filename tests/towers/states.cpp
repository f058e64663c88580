// SPDX-License-Identifier: MIT
// States of modules: batch norm's running statistics and the other kinds.
#include <cmath>
#include <limits>

#include "belfry/autodiff/ops/reduce/mean.h"
#include "belfry/core/error.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/norm_net.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

struct Moments {
  double mean = 0, variance = 0;  // unbiased
};

// Of channel c of 4 over the first `rows` rows.
Moments moments_of(const Batch& b, int c) {
  const std::vector<double> x = b["image"].to_vector();
  double sum = 0, square = 0, n = 0;
  for (std::size_t i = static_cast<std::size_t>(c); i < x.size(); i += 4) sum += x[i], ++n;
  for (std::size_t i = static_cast<std::size_t>(c); i < x.size(); i += 4)
    square += std::pow(x[i] - sum / n, 2);
  return {sum / n, square / (n - 1)};
}

struct Setup {
  explicit Setup(int towers, Optimizer optimizer = momentum({.lr = 0.1}),
                 Variables variables = Variables::shared, Executor executor = Executor::in_place,
                 const Log& log = {})
      : context({.towers = "cpu:" + std::to_string(towers),
                 .seed = 4,
                 .threads_per_tower = 1,
                 .executor = executor,
                 .log = log}),
        group(context, std::move(optimizer), norm_net(), options(variables)) {}
  static GroupOptions options(Variables variables) {
    GroupOptions out;
    out.variables = variables;
    out.capture = false;
    out.first_bucket_bytes = out.bucket_bytes = 16384;
    return out;
  }
  Context context;
  TowerGroupBase group;
};

const char* const kStates[] = {"input.running_mean", "input.running_var", "bn1.running_mean",
                               "bn1.running_var",    "bn2.running_mean",  "bn2.running_var"};

}  // namespace

TEST_CASE("running statistics are those of all rows, whatever the towers and micro-batches") {
  for (const Variables variables : {Variables::shared, Variables::replicated})
    for (const int towers : {1, 2, 3, 4, 8})
      for (const std::int64_t accumulate : {1, 3})
        for (const std::int64_t rows : {43, 3}) {  // 3 rows leave towers empty
          INFO(towers << " towers, accumulate " << accumulate << ", rows " << rows);
          Setup s(towers, momentum({.lr = 0.1}).accumulating(accumulate), variables);
          CHECK(state_of(s.group, "input.running_mean") == std::vector<float>(4, 0.f));
          CHECK(state_of(s.group, "input.running_var") == std::vector<float>(4, 1.f));
          Moments want[4] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}};
          for (const std::uint64_t seed : {5, 6}) {
            const Batch b = batch_of(s.context, rows, seed);
            s.group.step(b, classify_normed);
            for (int c = 0; c < 4; ++c) {
              const Moments m = moments_of(b, c);
              want[c].mean = 0.9 * want[c].mean + 0.1 * m.mean;
              want[c].variance = 0.9 * want[c].variance + 0.1 * m.variance;
            }
          }
          const std::vector<float> mean = state_of(s.group, "input.running_mean"),
                                   variance = state_of(s.group, "input.running_var");
          for (std::size_t c = 0; c < 4; ++c) {
            CHECK(std::abs(static_cast<double>(mean[c]) - want[c].mean) <= 1e-7);
            CHECK(std::abs(static_cast<double>(variance[c]) - want[c].variance) <= 3e-7);
          }
        }
}

namespace {

struct Plan {
  Optimizer optimizer;
  std::int64_t rows = 43, batch = 20, updates = 4;
};

std::string strict_run(const Plan& plan, int towers, Variables variables = Variables::shared,
                       Executor executor = Executor::in_place) {
  Setup s(towers, plan.optimizer, variables, executor);
  Loader loader(s.context, blobs(plan.rows), {.batch = plan.batch, .epochs = 100});
  Batch batch;
  std::string out;
  for (int k = 0; k < plan.updates && loader.next(batch); ++k)
    out += std::to_string(s.group.step(batch, classify_normed).loss()) + " ";
  for (const char* name : kStates)
    for (const float v : state_of(s.group, name)) REQUIRE(std::isfinite(v));
  return out + s.group.parameter_hash();
}

}  // namespace

TEST_CASE("strict: a net with batch norm has the same bits on any number of towers") {
  for (const int shards : {8, 5})
    for (const std::int64_t accumulate : {1, 2})
      for (const std::int64_t batch : {43, 20, 5}) {  // 5 leaves shards empty
        Plan plan{momentum({.lr = 0.1}).accumulating(accumulate)};
        plan.batch = batch;
        plan.optimizer.strict(shards);
        INFO(shards << " shards, accumulate " << accumulate << ", batch " << batch);
        const std::string want = strict_run(plan, 1);
        for (int n = 2; n <= shards; n = n == 4 ? 8 : n + 1) {
          CHECK(strict_run(plan, n) == want);
          CHECK(strict_run(plan, n, Variables::replicated) == want);
        }
        CHECK(strict_run(plan, 3, Variables::shared, Executor::threaded) == want);
        CHECK(strict_run(plan, 3, Variables::replicated, Executor::threaded) == want);
        CHECK(strict_run(plan, 3, Variables::shared, Executor::lazy) == want);
        CHECK(strict_run(plan, 3, Variables::replicated, Executor::lazy) == want);
      }
}

TEST_CASE("recorded passes of a net with batch norm have the bits of given ones") {
  for (const Variables variables : {Variables::shared, Variables::replicated})
    for (const bool strict : {false, true})
      for (const int towers : {1, 3}) {
        INFO(towers << " towers, strict " << strict);
        std::string hash[2];
        for (const bool capture : {false, true}) {
          Optimizer optimizer = momentum({.lr = 0.1});
          strict ? optimizer.strict(8) : optimizer.accumulating(2);
          Context context({.towers = "cpu:" + std::to_string(towers), .seed = 4});
          GroupOptions options = Setup::options(variables);
          options.capture = capture;
          TowerGroupBase group(context, optimizer, norm_net(), options);
          Loader loader(context, blobs(40), {.batch = 20, .epochs = 100});
          Batch batch;
          for (int k = 0; k < 8 && loader.next(batch); ++k) group.step(batch, classify_normed);
          hash[capture ? 1 : 0] = group.parameter_hash();
        }
        CHECK(hash[0] == hash[1]);
      }
}

TEST_CASE("strict: stopped in the middle and resumed on another number of towers") {
  const auto optimizer = [] {
    Optimizer o = momentum({.lr = 0.1});
    o.strict(8);
    return o;
  };
  const auto train = [](Setup& s, Loader& loader, int updates) {
    Batch batch;
    for (int k = 0; k < updates && loader.next(batch); ++k) s.group.step(batch, classify_normed);
  };
  Setup whole(1, optimizer());
  Loader loader(whole.context, blobs(43), {.batch = 20, .epochs = 10});
  train(whole, loader, 6);
  for (const int second : {1, 3, 8}) {
    TestFolder folder;
    std::int64_t position = 0;
    {
      Setup first(2, optimizer());
      Loader rows(first.context, blobs(43), {.batch = 20, .epochs = 10});
      train(first, rows, 4);
      position = rows.position();
      Checkpoint(folder / "saved", first.group).save();
      const safetensors::Reader reader(folder / "saved/model.safetensors");
      for (const char* name : kStates) CHECK(reader.find(name) != nullptr);
    }
    Setup resumed(second, optimizer(), second == 3 ? Variables::replicated : Variables::shared);
    Checkpoint(folder / "saved", resumed.group).load();
    Loader rows(resumed.context, blobs(43), {.batch = 20, .epochs = 10});
    rows.seek(position);
    train(resumed, rows, 2);
    CHECK(resumed.group.parameter_hash() == whole.group.parameter_hash());
  }
}

TEST_CASE("a refused update leaves running statistics as they were") {
  for (const Variables variables : {Variables::shared, Variables::replicated})
    for (const int towers : {1, 3}) {
      Setup s(towers, momentum({.lr = 0.1}), variables);
      const Batch b = batch_of(s.context, 20);
      s.group.step(b, classify_normed);
      const std::string before = s.group.parameter_hash();
      const float nan = std::numeric_limits<float>::quiet_NaN();
      CHECK_THROWS_AS(s.group.step(with_value(b, 700, nan), classify_normed), NumericError);
      CHECK(s.group.parameter_hash() == before);
      const auto throws = [&](Module& m, const Batch& rows, Step& step) {
        Loss loss = classify_normed(m, rows, step);
        if (step.tower == towers - 1) throw DataError("no more");
        return loss;
      };
      CHECK_THROWS_AS(s.group.step(b, throws), DataError);
      CHECK(s.group.parameter_hash() == before);
      s.group.averaged(b, classify_normed);  // nor does what only looks
      CHECK(s.group.parameter_hash() == before);
      s.group.step(b, classify_normed);
      CHECK(s.group.parameter_hash() != before);
    }
}

TEST_CASE("the stages of an update write running statistics as step() does") {
  Setup whole(2), stages(2);
  for (const std::uint64_t seed : {5, 6}) {
    const Batch b = batch_of(whole.context, 20, seed);
    whole.group.step(b, classify_normed);
    const TowerGradients g = stages.group.gradients(b, classify_normed);
    stages.group.apply(average_gradients(g.towers, {.weights = g.weights}));
  }
  for (const char* name : kStates) {
    const std::vector<float> a = state_of(whole.group, name), b = state_of(stages.group, name);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 1e-6f);
  }
  CHECK(state_of(whole.group, "input.running_mean") ==
        state_of(stages.group, "input.running_mean"));
}

TEST_CASE("evaluation takes running statistics and changes nothing") {
  Setup s(3);
  const Batch b = batch_of(s.context, 40);
  for (int k = 0; k < 5; ++k) s.group.step(b, classify_normed);
  const std::string before = s.group.parameter_hash();
  const auto loss = [&](std::int64_t rows, std::int64_t batch) {
    Loader loader(s.context, blobs(rows), {.batch = batch, .epochs = 1, .shuffle = false});
    return s.group.evaluate(loader, classify_normed).loss;
  };
  // A row's result does not depend on its neighbours.
  const double whole = loss(40, 40);
  CHECK(std::abs(loss(40, 7) - whole) <= 1e-6);
  CHECK(std::abs(loss(40, 1) - whole) <= 1e-6);
  CHECK(s.group.parameter_hash() == before);
  std::vector<GroupArray> other = s.group.arrays();
  for (GroupArray& a : other)
    if (a.variable == "bn1.running_mean")
      for (float& v : a.values) v += 1;
  s.group.set_arrays(other);
  CHECK(std::abs(loss(40, 40) - whole) > 1e-3);
}

TEST_CASE("a unit without loss weight contributes nothing to running statistics") {
  Setup s(2);
  const Batch b = with_value(batch_of(s.context, 20), 64 * 15,
                             std::numeric_limits<float>::quiet_NaN());  // on the second tower
  const auto first_only = [](Module& m, const Batch& rows, Step& step) {
    Loss loss = classify_normed(m, rows, step);
    if (step.tower == 1) loss.weight = Tensor::zeros({}, DType::f32, loss.weight.device());
    return loss;
  };
  s.group.step(b, first_only);
  Batch half = batch_of(s.context, 20).slice(0, 10);
  for (int c = 0; c < 4; ++c)
    CHECK(std::abs(static_cast<double>(state_of(s.group, "input.running_mean")[std::size_t(c)]) -
                   0.1 * moments_of(half, c).mean) <= 1e-7);
}

TEST_CASE("replicas: a state that differs on one tower is found by the next comparison") {
  GroupOptions options = Setup::options(Variables::replicated);
  options.check_replicas = 2;
  Context context({.towers = "cpu:3", .seed = 4, .threads_per_tower = 1});
  TowerGroupBase group(context, momentum({.lr = 0.1}), norm_net(), options);
  const Batch batch = batch_of(context, 30);
  for (int i = 0; i < 3; ++i) group.step(batch, classify_normed);  // one comparison, without fault
  const Tensor variance = group.replica(1).states()[1]->variance();
  static_cast<float*>(variance.raw())[6] += 1;
  group.step(batch, classify_normed);
  std::string text;
  try {
    group.step(batch, classify_normed);
  } catch (const DeviceError& error) {
    text = error.what();
  }
  CHECK_THAT(text, Contains("the replicas differ, first in state bn1.running_var: found other "
                            "values on tower 1, expected the same bits on every tower"));
}

TEST_CASE("checkpoints: a state that is missing or of another shape is named") {
  TestFolder folder;
  {
    Setup s(1);
    s.group.step(batch_of(s.context, 20), classify_normed);
    Checkpoint(folder / "saved", s.group).save();
  }
  Context context({.towers = "cpu:1"});
  TowerGroupBase other(context, momentum({.lr = 0.1}), mlp());
  CHECK_THROWS_WITH(Checkpoint(folder / "saved", other).load(),
                    Contains("bn1.running_mean") && Contains("in the checkpoint only"));
  Setup s(1);
  std::vector<GroupArray> arrays{{kStateKind, "bn9.running_mean", {8}, std::vector<float>(8)}};
  CHECK_THROWS_WITH(s.group.set_arrays(arrays), Contains("bn9.running_mean"));
  arrays = {{kStateKind, "bn1.running_mean", {7}, std::vector<float>(7)}};
  CHECK_THROWS_WITH(s.group.set_arrays(arrays), Contains("[7]") && Contains("[8]"));
}

TEST_CASE("the log says that batch norm makes the number of towers matter, unless strict") {
  Messages said;
  Setup plain(2, momentum({.lr = 0.1}), Variables::shared, Executor::in_place, said.log());
  CHECK_THAT(said.text,
             Contains("input.running_mean") && Contains("depend on the number of towers"));
  Messages strict;
  Optimizer o = momentum({.lr = 0.1});
  o.strict(4);
  Setup quiet(2, o, Variables::shared, Executor::in_place, strict.log());
  CHECK_THAT(strict.text, !Contains("depend on the number of towers"));
}

namespace {

// A linear layer that keeps the mean of its inputs, counts rows, and remembers the update.
struct Kinds : Module {
  Tensor forward(const Tensor& x, const Batch& b, std::int64_t update) const {
    Device& device = x.device();
    const std::vector<double> rows{static_cast<double>(b.rows)};
    seen.contribute(reshape(mean(x).detach(), {1}));
    count.contribute(Tensor::from(rows, {1}, DType::f32, device));
    last.contribute(Tensor::from({static_cast<double>(update), -1.0}, {2}, DType::f32, device));
    return head(x);
  }
  Linear head{*this, "head", 64, 10};
  ModuleState seen{*this, "seen", {1}, StateKind::mean};
  ModuleState count{*this, "count", {1}, StateKind::sum, 1000};
  ModuleState last{*this, "last", {2}, StateKind::equal};
};

}  // namespace

TEST_CASE("states that are a mean, a sum or equal everywhere") {
  for (const Variables variables : {Variables::shared, Variables::replicated})
    for (const int towers : {1, 2, 3, 8})
      for (const std::int64_t accumulate : {1, 2}) {
        INFO(towers << " towers, accumulate " << accumulate);
        Context context({.towers = "cpu:" + std::to_string(towers), .seed = 4});
        GroupOptions options;
        options.variables = variables;
        TowerGroupBase group(
            context, momentum({.lr = 0.1}).accumulating(accumulate),
            [] { return std::make_unique<Kinds>(); }, options);
        const auto loss = [](Module& m, const Batch& b, Step& step) {
          return cross_entropy(static_cast<Kinds&>(m).forward(b["image"], b, step.update),
                               b["label"]);
        };
        CHECK(state_of(group, "count") == std::vector<float>{1000});
        const Batch b = batch_of(context, 5);  // some of 8 towers are empty
        group.step(b, loss);
        group.step(b, loss);
        double all = 0;
        for (const double x : b["image"].to_vector()) all += x / (5 * 64);
        CHECK(std::abs(static_cast<double>(state_of(group, "seen").at(0)) - all) <= 1e-6);
        CHECK(state_of(group, "count") == std::vector<float>{1010});
        CHECK(state_of(group, "last") == std::vector<float>{2, -1});
      }
}

TEST_CASE("misuse of states and of batch norm") {
  struct Tanh : Module {
    BatchNorm bn{*this, "bn", 4, Activation::tanh};
  };
  CHECK_THROWS_WITH(Tanh(), Contains("'bn'") && Contains("tanh") && Contains("none or relu"));
  struct Momentum : Module {
    BatchNorm bn{*this, "bn", 4, Activation::none, 0};
  };
  CHECK_THROWS_WITH(Momentum(), Contains("bn.running_mean") && Contains("momentum"));
  struct Twice : Module {
    ModuleState a{*this, "a", {1}, StateKind::sum};
    ModuleState b{*this, "a", {1}, StateKind::sum};
  };
  CHECK_THROWS_WITH(Twice(), Contains("'a' twice"));
  struct Pooled : Module {
    ModuleState a{*this, "a", {1}, StateKind::pooled};
  };
  CHECK_THROWS_WITH(Pooled(), Contains("pooled"));
  struct Plain : Module {
    ModuleState a{*this, "a", {2}, StateKind::sum};
    ModuleState b{*this, "mean", "variance", {2}, 0.1};
  } plain;
  CHECK_THROWS_WITH(plain.a.value(), Contains("no memory"));
  Context context({.towers = "cpu:1"});
  const Tensor three = Tensor::zeros({3}, DType::f32, context.device(0));
  CHECK_THROWS_WITH(plain.a.contribute(three), Contains("[3]") && Contains("[2]"));
  CHECK_THROWS_WITH(plain.b.contribute(three), Contains("moments"));
  CHECK_THROWS_WITH(plain.b.contribute(three, 4), Contains("[3] of 4"));
  CHECK_THROWS_WITH(plain.a.bind(three, {}, nullptr), Contains("state a") && Contains("[3]"));
}
