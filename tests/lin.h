// SPDX-License-Identifier: MIT
// The reference model of the scenarios: one weight w from 0, prediction w x, loss the mean over
// rows of (w x - y)^2, data x = 1..N, y = 2 x in order. A row's gradient is 2 x^2 (w - 2).
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/mse.h"
#include "belfry/data/memory.h"
#include "belfry/towers/group.h"

namespace belfry::test {

struct Lin : Module {
  Variable w{*this, "w", Shape{1}, Init::zeros()};
};

inline Loss lin_loss(Module& m, const Batch& b, Step&) {
  return mse(mul(b["x"], static_cast<Lin&>(m).w), b["y"]);
}

inline std::shared_ptr<const Dataset> lin_data(std::int64_t rows) {
  std::vector<float> x, y;
  for (std::int64_t i = 1; i <= rows; ++i) {
    x.push_back(static_cast<float>(i));
    y.push_back(static_cast<float>(2 * i));
  }
  return memory_dataset({{"x", Shape{1}, std::move(x)}, {"y", Shape{1}, std::move(y)}});
}

inline TowerGroupBase::Factory lin() {
  return [] { return std::make_unique<Lin>(); };
}

inline double weight_of(TowerGroupBase& group) {
  return static_cast<double>(group.parameter("w")[0]);
}

}  // namespace belfry::test
