// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>

#include "belfry/autodiff/module.h"
#include "belfry/autodiff/ops/image/conv2d.h"

namespace belfry {

// A convolution of NHWC images with a square kernel. Variables "weight" [out, kernel, kernel, in]
// and "bias" [out], both starting uniform in +-1/sqrt(in kernel^2), as PyTorch's, unless the
// weight's start is given.
class Conv2d : public Module {
 public:
  Conv2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
         std::int64_t kernel, Conv2dOptions options = {}, Activation activation = Activation::none,
         bool bias = true, std::optional<Init> start = {});
  Tensor operator()(const Tensor& x) const;

 private:
  Variable weight_;
  std::optional<Variable> bias_;
  Conv2dOptions options_;
  Activation activation_;
};

}  // namespace belfry
