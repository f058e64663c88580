// SPDX-License-Identifier: MIT
// Promise 1: the number of towers is not a hyper-parameter.
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/real_data.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;

namespace {

Optimizer recipe() {
  LearningRate lr = cosine(0.2, "100u");
  lr.warm_up("10u");
  return momentum({.lr = lr, .momentum = 0.9}).clip_global_norm(1.0).decay(1e-3, {"*.bias"});
}

struct Run {
  Run(int n, std::shared_ptr<const Dataset> digits, std::int64_t batch)
      : context({.towers = "cpu:" + std::to_string(n), .seed = 11, .threads_per_tower = 1}),
        loader(context, std::move(digits), {.batch = batch, .epochs = 1000}),
        towers(context, recipe(), mlp(0.25)) {}
  Context context;
  Loader loader;
  TowerGroupBase towers;
};

}  // namespace

TEST_CASE("N = 1, 2, 3, 4, 8 on digits: gradients agree at equal parameters, losses free-running",
          "[slow]") {
  const auto file = real_data("digits8x8/optdigits-train.csv.gz");
  if (!file) return;
  CsvOptions options;
  options.scale = 16;
  const auto digits = csv(*file, options);
  REQUIRE(digits->rows() == 3823);
  for (const std::int64_t batch : {100, 955}) {  // 955: a tail of 3 rows, which leaves towers empty
    std::vector<std::unique_ptr<Run>> along, free;
    for (const int n : {1, 2, 3, 4, 8}) {
      along.push_back(std::make_unique<Run>(n, digits, batch));
      free.push_back(std::make_unique<Run>(n, digits, batch));
    }
    double worst_gradient = 0, worst_loss = 0;
    for (int u = 0; u < 100; ++u) {
      std::vector<GroupArray> one;
      double loss = 0;
      for (std::size_t k = 0; k < along.size(); ++k) {
        Run& run = *along[k];
        Batch b;
        REQUIRE(run.loader.next(b));
        if (k != 0) {
          run.towers.set_arrays(along[0]->towers.arrays());
          run.towers.set_clocks(along[0]->towers.clocks());
        }
        const auto g = run.towers.averaged(b, classify);
        if (k == 0)
          one = g;
        else
          worst_gradient = std::max(worst_gradient, distance(g, one));
        if (k + 1 == along.size()) {  // all have seen these parameters: the one-tower run moves on
          Batch first = b.slice(0, b.rows);
          along[0]->towers.step(first, classify);
        }
        Batch f;
        REQUIRE(free[k]->loader.next(f));
        const double l = free[k]->towers.step(f, classify).loss();
        if (k == 0)
          loss = l;
        else
          worst_loss = std::max(worst_loss, std::abs(l - loss));
      }
    }
    INFO("batch " << batch);
    CHECK(worst_gradient <= 2e-6);
    CHECK(worst_loss <= 1e-4);
    WARN("batch " << batch << ": gradient within " << worst_gradient
                  << " of its norm, losses within " << worst_loss);
  }
}
