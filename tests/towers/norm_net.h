// SPDX-License-Identifier: MIT
// A small net with batch norm and modules with the other kinds of state.
#pragma once
#include <memory>

#include "belfry/autodiff/nn/batch_norm.h"
#include "belfry/autodiff/nn/conv2d.h"
#include "belfry/autodiff/ops/image/global_avg_pool.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/tests/towers/nets.h"

namespace belfry::test {

// 64 features as 4 x 4 images of 4 channels: batch norm, a residual block, a mean, a linear layer.
struct NormNet : Module {
  NormNet() = default;
  Tensor forward(const Tensor& x) const {
    const Tensor image = input(reshape(x, {x.shape()[0], 4, 4, 4}));
    const Tensor y = bn1(conv1(image));
    return head(global_avg_pool(bn2(conv2(y), y)));
  }
  BatchNorm input{*this, "input", 4};
  Conv2d conv1{*this, "conv1", 4, 8, 3, {.padding = 1}, Activation::none, false};
  BatchNorm bn1{*this, "bn1", 8, Activation::relu};
  Conv2d conv2{*this, "conv2", 8, 8, 3, {.padding = 1}, Activation::none, false};
  BatchNorm bn2{*this, "bn2", 8, Activation::relu};
  Linear head{*this, "head", 8, 10};
};

inline Loss classify_normed(Module& m, const Batch& b, Step&) {
  return cross_entropy(static_cast<NormNet&>(m).forward(b["image"]), b["label"]);
}

inline TowerGroupBase::Factory norm_net() {
  return [] { return std::make_unique<NormNet>(); };
}

// The values of one state.
inline std::vector<float> state_of(TowerGroupBase& group, const std::string& name) {
  for (const GroupArray& a : group.arrays())
    if (a.kind == kStateKind && a.variable == name) return a.values;
  return {};
}

}  // namespace belfry::test
