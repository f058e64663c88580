// SPDX-License-Identifier: MIT
// Strict mode on real data: equal parameter hashes for any number of towers after 100 updates.
#include <map>

#include "belfry/data/datasets/csv/csv.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/real_data.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/towers/model.h"

using namespace belfry;
using namespace belfry::test;

namespace {

struct Task {
  std::shared_ptr<const Dataset> data;
  TowerGroupBase::Factory model;
  LossFn loss;
  Optimizer optimizer;
  std::int64_t batch;
};

// "hash loss" after 100 updates, threads unset.
std::string run(const Task& task, int towers, Variables variables) {
  Context context({.towers = "cpu:" + std::to_string(towers), .seed = 11});
  Loader loader(context, task.data, {.batch = task.batch, .epochs = 1000});
  GroupOptions options;
  options.variables = variables;
  TowerGroupBase group(context, task.optimizer, task.model, options);
  Batch batch;
  double loss = 0;
  for (int k = 0; k < 100; ++k) {
    REQUIRE(loader.next(batch));
    loss = group.step(batch, task.loss).loss();
  }
  return group.parameter_hash() + " " + std::to_string(loss);
}

void same_for_all(const Task& task, const std::string& name) {
  const std::string want = run(task, 1, Variables::shared);
  int runs = 1;
  for (const int n : {1, 2, 3, 4, 8})
    for (const Variables v : {Variables::shared, Variables::replicated}) {
      if (n == 1 && v == Variables::shared) continue;
      INFO(n << " towers");
      CHECK(run(task, n, v) == want);
      ++runs;
    }
  WARN(name << ", 100 updates, " << runs << " layouts: " << want);
}

}  // namespace

TEST_CASE("strict: mlp on digits with dropout, clip, accumulation, B = 955", "[slow]") {
  const auto file = real_data("digits8x8/optdigits-train.csv.gz");
  if (!file) return;
  CsvOptions options;
  options.scale = 16;
  LearningRate lr = cosine(0.2, "100u");
  lr.warm_up("10u");
  same_for_all({csv(*file, options), mlp(0.25), classify,
                momentum({.lr = lr, .momentum = 0.9})
                    .clip_global_norm(1.0)
                    .decay(1e-3, {"*.bias"})
                    .accumulating(2)
                    .strict(8),
                955},
               "mlp on digits");
}

TEST_CASE("strict: LeNet on Fashion-MNIST", "[slow]") {
  const auto images = fashion_mnist("train-images-idx3-ubyte.gz"),
             labels = fashion_mnist("train-labels-idx1-ubyte.gz");
  if (!images || !labels) return;
  IdxOptions options;
  options.rows.count = 4000;
  const auto data = idx(*images, *labels, options);
  const std::shared_ptr<ModelFactory> lenet =
      builtin().table<ModelEntry>().at("lenet", "model").make();
  same_for_all({data,
                [&] {
                  return lenet->build(Shape{28, 28, 1}, 10);
                },
                [](Module& m, const Batch& b, Step&) {
                  return cross_entropy(static_cast<Classifier&>(m).forward(b["image"]), b["label"]);
                },
                momentum({.lr = 0.05, .momentum = 0.9}).clip_global_norm(2.0).strict(8), 60},
               "LeNet on Fashion-MNIST");
}
