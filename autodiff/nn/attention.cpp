// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/attention.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/sequence/attention.h"
#include "belfry/core/philox.h"

namespace belfry {
namespace {

std::int64_t divided(const std::string& layer, std::int64_t width, std::int64_t heads) {
  positive(layer, "heads", heads);
  if (width % heads != 0)
    throw ConfigError(
        ErrorText{.what = "layer '" + layer + "': heads do not divide the width",
                  .found = std::to_string(heads) + " heads, width " + std::to_string(width),
                  .expected = "a width that is a multiple of heads"});
  return heads;
}

}  // namespace

Attention::Attention(Module& parent, const std::string& name, std::int64_t width,
                     std::int64_t heads, const Options& options)
    : Module(parent, name),
      heads_(divided(path(), width, heads)),
      causal_(options.causal),
      dropout_(dropped_share(path(), options.dropout)),
      hash_(name_hash(path())),
      qkv_(*this, "qkv", width, 3 * width, Activation::none, true, options.start),
      out_(*this, "out", width, width, Activation::none, true, options.out_start) {}

Tensor Attention::operator()(const Tensor& x) const {
  return out_(attention(qkv_(x), heads_, causal_, {dropout_, hash_}));
}

}  // namespace belfry
