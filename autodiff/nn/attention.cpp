// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/attention.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/sequence/attention.h"
#include "belfry/autodiff/ops/shape/concat.h"
#include "belfry/autodiff/ops/shape/slice.h"
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

Tensor Attention::operator()(const Tensor& x, KeyValues& past) const {
  const bool first = past.positions() == 0;
  if (!causal_ || (!first && x.shape()[1] != 1))
    throw GradientError(
        ErrorText{.what = "layer '" + path() + "' cannot go on like this",
                  .found = std::string(causal_ ? "causal, " : "not causal, ") + x.shape().text() +
                           " behind " + std::to_string(past.positions()) + " positions",
                  .expected = "a causal attention, and one position behind others"});
  const Tensor qkv = qkv_(x);
  const std::int64_t width = qkv.shape()[2] / 3;
  const Tensor q = slice(qkv, 2, 0, width), k = slice(qkv, 2, width, width),
               v = slice(qkv, 2, 2 * width, width);
  past.keys = first ? k : concat({past.keys, k}, 1);
  past.values = first ? v : concat({past.values, v}, 1);
  return out_(attention(q, past.keys, past.values, heads_, first, {dropout_, hash_}));
}

}  // namespace belfry
