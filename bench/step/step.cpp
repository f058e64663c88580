// SPDX-License-Identifier: MIT
// Whole steps of a group (momentum, guard on) beside their matrix products alone, interleaved.
#include <memory>

#include "belfry/bench/common/images.h"
#include "belfry/bench/common/limits.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/products.h"
#include "belfry/bench/common/results.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/session.h"

namespace belfry::bench {
namespace {

constexpr int kCallsPerRound = 30, kWarmUp = 30;

// The figures of all rounds.
struct Figures {
  Samples step, products, gemm, share, forward_backward, exposed, update, rest;
};

class StepBench {
 public:
  explicit StepBench(const Options& options)
      : context_({.towers = "cpu:" + std::to_string(options.towers), .threads_per_tower = 1}),
        model_(builtin().table<ModelEntry>().at(options.model, "model").make()),
        loader_(context_, rows_for(options.model, options.batch * options.towers),
                {.batch = options.batch * options.towers, .shuffle = false, .prefetch = 0}),
        group_(
            context_,
            options.model == "gpt" ? adamw({.lr = 1e-3}) : momentum({.lr = 0.01, .momentum = 0.9}),
            [this] {
              const Dataset& data = loader_.dataset();
              return model_->build(data.fields()[0].shape, data.classes());
            }),
        loss_(classifier_loss(kNoLabel, model_->input().field)),
        products_(static_cast<std::size_t>(options.towers)) {
    loader_.next(batch_);
    context_.host().run(context_.towers(), [&](int t) {  // built where they run
      context_.device(t).bind_thread();
      products_[static_cast<std::size_t>(t)] =
          std::make_unique<Products>(options.model, options.batch, context_.device(t));
    });
    for (int i = 0; i < kWarmUp; ++i) group_.step(batch_, loss_);
    products_seconds(kWarmUp);
    best_gemm(context_, kWarmUp);
  }

  const Products& products() const { return *products_[0]; }

  void round(Figures& f) {
    Samples step, passes, exposed, update, rest;
    for (int i = 0; i < kCallsPerRound; ++i) {
      const Clock::time_point start = Clock::now();
      const Report r = group_.step(batch_, loss_);
      step.add(seconds_since(start));
      passes.add(r.forward_backward);
      exposed.add(r.exposed);
      update.add(r.update_seconds);
      rest.add(step.values.back() - r.forward_backward - r.exposed - r.update_seconds);
    }
    f.step.add(step.median());
    f.forward_backward.add(passes.median());
    f.exposed.add(exposed.median());
    f.update.add(update.median());
    f.rest.add(rest.median());
    f.products.add(products_seconds(kCallsPerRound));
    f.gemm.add(best_gemm(context_, kCallsPerRound));
    f.share.add(products().model_flops() * context_.towers() / f.step.values.back() /
                f.gemm.values.back());
  }

 private:
  // Median time of all products on every tower at once, mean over the towers.
  double products_seconds(int calls) {
    std::vector<double> seconds(products_.size());
    context_.host().run(context_.towers(), [&](int t) {
      const auto k = static_cast<std::size_t>(t);
      context_.device(t).bind_thread();
      seconds[k] = median_seconds(calls, [&] { products_[k]->run(); });
    });
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum / static_cast<double>(seconds.size());
  }

  Context context_;
  std::shared_ptr<ModelFactory> model_;
  Loader loader_;
  TowerGroupBase group_;
  LossFn loss_;
  std::vector<std::unique_ptr<Products>> products_;
  Batch batch_;
};

bool run(const Options& options) {
  Results results("step");
  results.setting("model", options.model);
  results.setting("towers", std::to_string(options.towers));
  results.setting("rows_per_tower", std::to_string(options.batch));
  results.setting("threads_per_tower", "1");
  StepBench bench(options);
  Figures f;
  for (int i = 0; i < options.rounds; ++i) bench.round(f);
  const double flops = bench.products().flops() * options.towers;
  Samples rate, samples;
  for (const double s : f.products.values) rate.add(flops / s);
  for (const double s : f.step.values)
    samples.add(static_cast<double>(options.batch * options.towers) / s);
  const std::string products =
      "its " + std::to_string(bench.products().count()) + " products alone";
  results.figure("step", "whole step", f.step, "us", 1e6);
  results.figure("samples_per_second", "throughput", samples, "rows/s");
  results.figure("forward_backward", "  forward and backward", f.forward_backward, "us", 1e6);
  results.figure("exposed", "  exposed exchange and fold", f.exposed, "us", 1e6);
  results.figure("update", "  update", f.update, "us", 1e6);
  results.figure("rest", "  around the towers", f.rest, "us", 1e6);
  results.figure("products", products, f.products, "us", 1e6);
  results.figure("step_over_products", "step / products", ratio(f.step, f.products), "x");
  results.figure("product_rate", "rate of the products", rate, "GFLOP/s", 1e-9);
  results.figure("best_gemm", "best GEMM, 512 x 512 x 512", f.gemm, "GFLOP/s", 1e-9);
  results.figure("product_share", "products / best GEMM", ratio(rate, f.gemm), "%", 100);
  results.figure("model_share", "the model's products in a whole step / best GEMM", f.share, "%",
                 100);
  if (options.model == "mlp" && options.towers == 1) {
    results.at_most("step_over_products", 1.5);
    results.at_least("product_share", 80);
  }
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
