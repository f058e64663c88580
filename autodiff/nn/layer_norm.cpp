// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/layer_norm.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/norm/layer_norm.h"

namespace belfry {

LayerNorm::LayerNorm(Module& parent, const std::string& name, std::int64_t width, double eps)
    : Module(parent, name),
      weight_(*this, "weight", {positive(path(), "width", width)}, Init::constant(1)),
      bias_(*this, "bias", {width}, Init::zeros()),
      eps_(eps) {}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight_, bias_, eps_); }

}  // namespace belfry
