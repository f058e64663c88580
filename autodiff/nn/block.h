// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/nn/attention.h"
#include "belfry/autodiff/nn/dropout.h"
#include "belfry/autodiff/nn/layer_norm.h"

namespace belfry {

// A pre-norm transformer block, x + attention(norm1 x), then + down(gelu(up(norm2 x))), as GPT-2's:
// Radford et al., "Language models are unsupervised multitask learners", 2019. up widens four
// times. Dropout acts on the attention's probabilities and on what each branch adds.
class TransformerBlock : public Module {
 public:
  struct Options {
    bool causal = true;
    double dropout = 0;
    std::optional<Init> start{}, out_start{};  // of weights, and of those that add to the residual
  };
  TransformerBlock(Module& parent, const std::string& name, std::int64_t width, std::int64_t heads,
                   const Options& options);
  // With `past` x goes on where that ends: Attention.
  Tensor operator()(const Tensor& x, KeyValues* past = nullptr) const;

 private:
  LayerNorm norm1_;
  Attention attention_;
  Dropout drop1_;
  LayerNorm norm2_;
  Linear up_, down_;
  Dropout drop2_;
};

}  // namespace belfry
