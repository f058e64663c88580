// SPDX-License-Identifier: MIT
// LAMB's rates by whole variables: against a plain double, on any number of towers, skipped
// variables, resume.
#include "belfry/optim/rules/lamb.h"

#include <filesystem>

#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"
#include "belfry/towers/checkpoint/checkpoint.h"

using namespace belfry;
using namespace belfry::test;

namespace {

// A variable of 200 x 64 elements lies in several blocks.
struct WideNet : Module {
  Linear hidden{*this, "hidden", 64, 200, Activation::tanh};
  Linear head{*this, "head", 200, 10};
  Linear spare{*this, "spare", 3, 2};  // never reached
  Tensor forward(const Tensor& x) { return head(hidden(x)); }
};

TowerGroupBase::Factory wide() {
  return [] { return std::make_unique<WideNet>(); };
}

Loss classify_wide(Module& m, const Batch& b, Step&) {
  return cross_entropy(static_cast<WideNet&>(m).forward(b["image"]), b["label"]);
}

GroupOptions small_buckets(Variables variables) {
  GroupOptions out;
  out.variables = variables;
  out.first_bucket_bytes = out.bucket_bytes = 16384;
  return out;
}

Context cpus(int n) {
  return Context({.towers = "cpu:" + std::to_string(n), .seed = 4, .threads_per_tower = 1});
}

// You et al. 2019, algorithm 2, in double.
struct Plain {
  double lr, decay, beta1 = 0.9, beta2 = 0.999, eps = 1e-6;
  std::vector<double> param, mean, square;
  int t = 0;

  void update(const std::vector<double>& grad) {
    mean.resize(param.size());
    square.resize(param.size());
    ++t;
    std::vector<double> u(param.size());
    double uu = 0, pp = 0;
    for (std::size_t i = 0; i < param.size(); ++i) {
      mean[i] = beta1 * mean[i] + (1 - beta1) * grad[i];
      square[i] = beta2 * square[i] + (1 - beta2) * grad[i] * grad[i];
      u[i] = mean[i] / (1 - std::pow(beta1, t)) /
                 (std::sqrt(square[i] / (1 - std::pow(beta2, t))) + eps) +
             decay * param[i];
      uu += u[i] * u[i];
      pp += param[i] * param[i];
    }
    const double trust = uu > 0 && pp > 0 ? std::sqrt(pp) / std::sqrt(uu) : 1;
    for (std::size_t i = 0; i < param.size(); ++i) param[i] -= lr * trust * u[i];
  }
};

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("lamb: 6 updates of a net follow the paper's algorithm in double, variable by variable") {
  for (const int towers : {1, 3}) {
    Context context = cpus(towers);
    TowerGroupBase group(context, lamb({.lr = 0.05, .weight_decay = 0.1}), wide(),
                         small_buckets(towers == 1 ? Variables::shared : Variables::replicated));
    std::map<std::string, Plain> plain;
    for (const GroupArray& a : group.arrays())
      if (a.kind == "parameter")
        plain[a.variable] = {.lr = 0.05, .decay = 0.1, .param = doubles(a.values)};
    const std::vector<double> spare = plain["spare.weight"].param;
    for (std::uint64_t k = 0; k < 6; ++k) {
      const Batch batch = batch_of(context, 30, k);
      for (const GroupArray& g : group.averaged(batch, classify_wide))
        if (!g.variable.starts_with("spare")) plain[g.variable].update(doubles(g.values));
      group.step(batch, classify_wide);
    }
    for (const GroupArray& a : group.arrays()) {
      if (a.kind != "parameter") continue;
      INFO(a.variable << " on " << towers);
      const Plain& p = plain[a.variable];
      double apart = 0, norm = 0;
      for (std::size_t i = 0; i < p.param.size(); ++i) {
        apart += std::pow(static_cast<double>(a.values[i]) - p.param[i], 2);
        norm += p.param[i] * p.param[i];
      }
      CHECK(std::sqrt(apart) <= 2e-6 * std::sqrt(norm));
      if (a.variable == "spare.weight") CHECK(p.param == spare);
    }
  }
}

TEST_CASE(
    "lamb: a step is as long as the rate times the variable's norm; what is 0 moves by Adam") {
  Context context = cpus(2);
  TowerGroupBase group(context, lamb({.lr = 0.25, .weight_decay = 0}), wide());
  group.set_parameter("head.bias", std::vector<float>(10, 0));
  const auto values = [&](const std::string& name) {
    for (const GroupArray& a : group.arrays())
      if (a.kind == "parameter" && a.variable == name) return doubles(a.values);
    return std::vector<double>{};
  };
  const std::vector<double> before = values("hidden.weight");
  group.step(batch_of(context, 30), classify_wide);
  const std::vector<double> after = values("hidden.weight");
  double moved = 0, norm = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved += std::pow(after[i] - before[i], 2);
    norm += before[i] * before[i];
  }
  CHECK(std::sqrt(moved) == Approx(0.25 * std::sqrt(norm)).epsilon(1e-5));
  for (const double b : values("head.bias")) CHECK(std::abs(b) == Approx(0.25).epsilon(1e-2));
}

TEST_CASE("lamb: the same bits on 1 to 8 towers in strict mode, shared, replicated and recorded") {
  const auto trained = [](int towers, Variables variables, bool capture, bool guard) {
    Context context = cpus(towers);
    GroupOptions options = small_buckets(variables);
    options.capture = capture;
    Optimizer o = lamb({.lr = 0.02}).strict(8).clip_global_norm(0.5).with_ema(0.9);
    if (!guard) o.clip = Clip::none, o.clip_limit = 0, o.guard = false;
    TowerGroupBase group(context, o, wide(), options);
    Loader loader(context, blobs(43), {.batch = 20, .epochs = 3});
    Batch batch;
    while (loader.next(batch)) group.step(batch, classify_wide);
    std::vector<std::vector<float>> out;
    for (const GroupArray& a : group.arrays()) out.push_back(a.values);
    return out;
  };
  for (const bool guard : {true, false}) {
    const auto one = trained(1, Variables::shared, false, guard);
    for (int towers = 1; towers <= 8; ++towers) {
      INFO(towers << " towers, guard " << guard);
      CHECK(trained(towers, Variables::shared, false, guard) == one);
      CHECK(trained(towers, Variables::replicated, towers % 2 == 1, guard) == one);
    }
  }
}

TEST_CASE("lamb: a refused update changes nothing; a resumed run has the bits of a whole one") {
  const TestFolder folder;
  Context c1 = cpus(2), c2 = cpus(2);
  TowerGroupBase whole(c1, lamb({.lr = 0.02}), wide()), part(c2, lamb({.lr = 0.02}), wide());
  for (std::uint64_t k = 0; k < 2; ++k) {
    whole.step(batch_of(c1, 30, k), classify_wide);
    part.step(batch_of(c2, 30, k), classify_wide);
  }
  const std::string before = part.parameter_hash();
  const auto mean = [&] { return part.arrays().at(7).values; };
  const std::vector<float> state = mean();
  CHECK_THROWS_AS(part.step(with_value(batch_of(c2, 30, 9), 5, NAN), classify_wide), NumericError);
  CHECK(part.parameter_hash() == before);
  CHECK(mean() == state);
  Checkpoint(folder / "saved", part).save();
  Context c3 = cpus(2);
  TowerGroupBase rest(c3, lamb({.lr = 0.02}), wide());
  Checkpoint(folder / "saved", rest).load();
  for (std::uint64_t k = 2; k < 4; ++k) {
    whole.step(batch_of(c1, 30, k), classify_wide);
    rest.step(batch_of(c3, 30, k), classify_wide);
  }
  CHECK(rest.parameter_hash() == whole.parameter_hash());
}
