// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/conv2d.h"

#include "belfry/autodiff/nn/extents_internal.h"

namespace belfry {

Conv2d::Conv2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
               std::int64_t kernel, Conv2dOptions options, Activation activation, bool bias,
               std::optional<Init> start)
    : Module(parent, name),
      weight_(*this, "weight",
              {positive(path(), "output channels", out), positive(path(), "kernel", kernel), kernel,
               positive(path(), "input channels", in)},
              start.value_or(Init::uniform(fan_in_bound(in * kernel * kernel)))),
      options_(options),
      activation_(activation) {
  if (bias)
    bias_.emplace(*this, "bias", Shape{out}, Init::uniform(fan_in_bound(in * kernel * kernel)));
}

Tensor Conv2d::operator()(const Tensor& x) const {
  return conv2d(x, weight_, bias_ ? bias_->tensor() : Tensor(), options_, activation_);
}

}  // namespace belfry
