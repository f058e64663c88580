// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/linear.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/nn/flatten.h"
#include "belfry/autodiff/ops/matrix/linear.h"

namespace belfry {

Linear::Linear(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
               Activation activation, bool bias, std::optional<Init> start)
    : Module(parent, name),
      weight_(*this, "weight", {positive(path(), "outputs", out), positive(path(), "inputs", in)},
              start.value_or(Init::uniform(fan_in_bound(in)))),
      activation_(activation) {
  if (bias)
    bias_.emplace(*this, "bias", Shape{out},
                  start ? Init::zeros() : Init::uniform(fan_in_bound(in)));
}

Tensor Linear::operator()(const Tensor& x) const {
  const Shape& s = x.shape();
  const std::int64_t inputs = weight_.shape()[1];
  std::int64_t row = 1;
  for (int axis = 1; axis < s.rank(); ++axis) row *= s[axis];
  if (s.rank() > 2 && s[-1] != inputs && row == inputs)
    return linear(flatten(x), weight_, bias_ ? bias_->tensor() : Tensor(), activation_);
  return linear(x, weight_, bias_ ? bias_->tensor() : Tensor(), activation_);
}

}  // namespace belfry
