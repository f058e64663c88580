// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/image/avg_pool2d.h"
#include "belfry/autodiff/ops/image/max_pool2d.h"

namespace belfry {

// Pools as members of a model; they have no variables and so no name.
class MaxPool2d {
 public:
  explicit MaxPool2d(PoolOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

class AvgPool2d {
 public:
  explicit AvgPool2d(PoolOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

}  // namespace belfry
