// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/batch_norm.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/norm/batch_norm.h"

namespace belfry {
namespace {

bool is_relu(const std::string& layer, Activation activation) {
  if (activation != Activation::none && activation != Activation::relu)
    throw ConfigError(ErrorText{.what = "layer '" + layer + "': activation of batch norm",
                                .found = std::string(name_of(activation)),
                                .expected = "none or relu"});
  return activation == Activation::relu;
}

}  // namespace

BatchNorm::BatchNorm(Module& parent, const std::string& name, std::int64_t channels,
                     Activation activation, double momentum, double eps)
    : Module(parent, name),
      weight_(*this, "weight", Shape{positive(path(), "channels", channels)}, Init::constant(1)),
      bias_(*this, "bias", Shape{channels}, Init::zeros()),
      running_(*this, "running_mean", "running_var", Shape{channels}, momentum),
      relu_(is_relu(path(), activation)),
      eps_(eps) {}

Tensor BatchNorm::operator()(const Tensor& x, const Tensor& residual) const {
  const BatchNormOptions options{.eps = eps_, .relu = relu_};
  const Scope* scope = Scope::current();
  if (scope == nullptr || !scope->options().training)
    return batch_norm_given(x, weight_, bias_, residual, running_.value(), running_.variance(),
                            options);
  Tensor moments;
  Tensor y = batch_norm(x, weight_, bias_, residual, options, &moments);
  running_.contribute(moments, x.size() / x.shape()[-1]);
  return y;
}

}  // namespace belfry
