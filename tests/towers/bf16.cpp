// SPDX-License-Identifier: MIT
// Training whose products multiply in bf16 on CPU towers.
#include <cmath>

#include "belfry/device/cpu/precision.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;

namespace {

struct Trained {
  std::vector<double> losses;
  std::string hash;
};

Trained trained(int towers, Precision precision, bool capture = false) {
  Context context({.towers = "cpu:" + std::to_string(towers),
                   .seed = 4,
                   .threads_per_tower = 1,
                   .precision = precision});
  Optimizer optimizer = momentum({.lr = 0.05, .momentum = 0.9}).strict(4);
  GroupOptions options;
  options.capture = capture;
  TowerGroupBase group(context, optimizer, mlp(0.1), options);
  const Batch b = batch_of(context, 64);
  Trained out;
  for (int k = 0; k < 20; ++k) out.losses.push_back(group.step(b, classify).loss());
  out.hash = group.parameter_hash();
  return out;
}

}  // namespace

TEST_CASE("bf16 on CPU towers: follows f32, with the same bits on any number of towers") {
  if (const std::string fault = cpu_precision_fault(Precision::bf16); !fault.empty()) {
    WARN("skipped: " << fault);
    return;
  }
  const Trained f32 = trained(1, Precision::f32), one = trained(1, Precision::bf16);
  CHECK(one.losses.back() < 0.6 * one.losses.front());
  CHECK(one.hash != f32.hash);
  for (std::size_t k = 0; k < one.losses.size(); ++k)
    CHECK(std::abs(one.losses[k] - f32.losses[k]) <= 2e-2 * f32.losses[0]);
  for (const int towers : {2, 3, 4}) CHECK(trained(towers, Precision::bf16).hash == one.hash);
  CHECK(trained(2, Precision::bf16, true).hash == one.hash);
}
