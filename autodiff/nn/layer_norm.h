// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/module.h"

namespace belfry {

// Layer norm over the last axis, of `width` elements. Variables "weight", starting at 1, and
// "bias", at 0.
class LayerNorm : public Module {
 public:
  LayerNorm(Module& parent, const std::string& name, std::int64_t width, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;

 private:
  Variable weight_, bias_;
  double eps_;
};

}  // namespace belfry
