// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>

#include "belfry/apps/cli/bench_internal.h"
#include "belfry/autodiff/ops/matrix/matmul.h"
#include "belfry/autodiff/scope.h"
#include "belfry/core/philox.h"
#include "belfry/data/memory.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::int64_t kWarmup = 5, kSide = 28, kClasses = 10, kLength = 128, kTokens = 256;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

std::shared_ptr<const Dataset> random_images(std::int64_t rows) {
  const Philox random = philox_key(1, Purpose::test);
  std::vector<float> pixels(static_cast<std::size_t>(rows * kSide * kSide));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = unit_float(random(static_cast<std::uint32_t>(i), 0, 0, 0).v[0]);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(i % kClasses);
  return memory_dataset(std::move(pixels), Shape{kSide, kSide, 1}, std::move(labels), kClasses);
}

// Rows of 128 tokens of 256, each with the one that follows it.
std::shared_ptr<const Dataset> random_tokens(std::int64_t rows) {
  const Philox random = philox_key(1, Purpose::test);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows * kLength));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(random(static_cast<std::uint32_t>(i), 0, 0, 0).v[0] % kTokens);
  std::vector<std::int32_t> labels(tokens.begin() + 1, tokens.end());
  labels.push_back(0);
  LabelOptions all;
  all.classes = kTokens;
  return memory_dataset(
      {{"tokens", Shape{kLength}, std::move(tokens)}, {"label", Shape{kLength}, std::move(labels)}},
      all);
}

std::shared_ptr<const Dataset> random_rows(const ModelInput& input, std::int64_t rows) {
  return input.field == "tokens" ? random_tokens(rows) : random_images(rows);
}

}  // namespace

double StepTimes::median() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

double StepTimes::spread() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return 0;
  const std::size_t cut = sorted.size() / 10;
  return (sorted[sorted.size() - 1 - cut] - sorted[cut]) / median();
}

BenchRun::BenchRun(const Registry& registry, const BenchSetup& setup) : setup_(setup) {
  context_ = std::make_unique<Context>(ContextOptions{
      .towers = "cpu:" + std::to_string(setup.towers), .threads_per_tower = setup.threads});
  const std::shared_ptr<ModelFactory> model =
      registry.table<ModelEntry>().at(setup.model, "model").make();
  loader_ = std::make_unique<Loader>(*context_, random_rows(model->input(), setup.batch),
                                     LoaderOptions{.batch = setup.batch, .shuffle = false});
  loss_ = classifier_loss(kNoLabel, model->input().field);
  const Shape row = loader_->dataset().fields()[0].shape;
  const std::int64_t classes = loader_->dataset().classes();
  require_memory(
      plan_memory(*model->build(row, classes), momentum({}), setup.towers, Variables::shared),
      available_memory(), setup.towers > 1 ? "use fewer towers" : "use a smaller model");
  group_ = std::make_unique<TowerGroupBase>(
      *context_, momentum({.lr = 0.01, .momentum = 0.9}),
      [model, row, classes] { return model->build(row, classes); });
  loader_->next(batch_);
  measure(kWarmup);
}

StepTimes BenchRun::measure(std::int64_t updates) {
  StepTimes out;
  double total = 0, exposed = 0;
  for (std::int64_t i = 0; i < updates; ++i) {
    const Steady::time_point start = Steady::now();
    const Report report = group_->step(batch_, loss_);
    out.seconds.push_back(seconds_since(start));
    total += out.seconds.back();
    exposed += report.exposed;
  }
  out.exposed = total > 0 ? exposed / total : 0;
  return out;
}

std::int64_t BenchRun::matrix_product_flops() const {
  if (loader_->dataset().fields()[0].name != "image") return 0;
  std::int64_t flops = 0;
  bool first = true;
  for (const Variable* v : group_->replica(0).variables()) {
    if (v->shape().rank() > 2) return 0;
    if (v->shape().rank() != 2) continue;
    flops += 2 * setup_.batch * v->shape().size() * (first ? 2 : 3);  // the images need no gradient
    first = false;
  }
  return flops;
}

double best_gemm_rate(int threads) {
  constexpr std::int64_t n = 512;
  constexpr int kRuns = 60;
  const Context context({.towers = "cpu:1", .threads_per_tower = threads});
  Device& device = context.device(0);
  double best = 0;
  context.host().run(1, [&](int) {
    device.bind_thread();
    const Scope scope({});
    const std::vector<double> ones(static_cast<std::size_t>(n * n), 0.5);
    const Tensor a = Tensor::from(ones, {n, n}, DType::f32, device),
                 b = Tensor::from(ones, {n, n}, DType::f32, device);
    for (int i = 0; i < kRuns; ++i) {
      const Steady::time_point start = Steady::now();
      const Tensor c = matmul(a, b);
      device.synchronize();
      best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds_since(start));
    }
  });
  return best;
}

}  // namespace belfry
