// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/core/registry.h"
#include "belfry/towers/group.h"

namespace belfry {

// What the benches run: a model of the registry on random images of 28 x 28, or rows of 128
// tokens of 256, momentum, guard on.
struct BenchSetup {
  std::string model = "mlp";
  std::int64_t batch = 64;  // rows of one update, over all towers
  int towers = 1;
  int threads = 1;  // a tower
  std::int64_t updates = 50;
};

struct StepTimes {
  std::vector<double> seconds;  // of each update, after the warm-up
  double exposed = 0;           // share of the time
  double median() const;
  double spread() const;  // (largest - smallest) / median, without the outer tenths
};

// A group of its own context, warmed up by the constructor.
class BenchRun {
 public:
  BenchRun(const Registry& registry, const BenchSetup& setup);
  StepTimes measure(std::int64_t updates);
  std::int64_t matrix_product_flops()
      const;  // of one step; 0 for models of other than linear layers

 private:
  BenchSetup setup_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<TowerGroupBase> group_;
  LossFn loss_;
  Batch batch_;
};

// The best rate of the library's own matmul op on 512 x 512 x 512, in FLOP/s.
double best_gemm_rate(int threads);

}  // namespace belfry
