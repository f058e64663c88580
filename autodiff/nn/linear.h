// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>

#include "belfry/autodiff/module.h"
#include "belfry/autodiff/ops/activation.h"

namespace belfry {

// act(x weight^T + bias) over the last axis; images [rows, ...] of `in` values each are taken as
// rows of `in`. Variables "weight" [out, in] and "bias" [out], both
// starting uniform in +-1/sqrt(in), as PyTorch's; with `start` the weight starts so, the bias at 0.
class Linear : public Module {
 public:
  Linear(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
         Activation activation = Activation::none, bool bias = true,
         std::optional<Init> start = {});
  Tensor operator()(const Tensor& x) const;

 private:
  Variable weight_;
  std::optional<Variable> bias_;
  Activation activation_;
};

}  // namespace belfry
