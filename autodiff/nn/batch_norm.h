// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/module.h"
#include "belfry/autodiff/ops/activation.h"
#include "belfry/autodiff/state.h"

namespace belfry {

// Batch normalisation over the channels, the last axis, of images or rows; then ReLU where asked.
// Variables "weight" and "bias" start at 1 and 0. In training it takes the statistics of the rows
// of its pass (a tower's part of the batch, or a virtual shard's); elsewhere the state
// "running_mean" and "running_var", pooled over all passes of each update with PyTorch's default
// momentum. ConfigError on an activation other than none and relu.
class BatchNorm : public Module {
 public:
  BatchNorm(Module& parent, const std::string& name, std::int64_t channels,
            Activation activation = Activation::none, double momentum = 0.1, double eps = 1e-5);
  // With `residual`, of x's shape, added before the activation.
  Tensor operator()(const Tensor& x, const Tensor& residual = {}) const;

 private:
  Variable weight_, bias_;
  ModuleState running_;
  bool relu_;
  double eps_;
};

}  // namespace belfry
