// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/block.h"

#include "belfry/autodiff/ops/elementwise/add.h"

namespace belfry {

TransformerBlock::TransformerBlock(Module& parent, const std::string& name, std::int64_t width,
                                   std::int64_t heads, const Options& o)
    : Module(parent, name),
      norm1_(*this, "norm1", width),
      attention_(
          *this, "attention", width, heads,
          {.causal = o.causal, .dropout = o.dropout, .start = o.start, .out_start = o.out_start}),
      drop1_(*this, "drop1", o.dropout),
      norm2_(*this, "norm2", width),
      up_(*this, "up", width, 4 * width, Activation::gelu, true, o.start),
      down_(*this, "down", 4 * width, width, Activation::none, true, o.out_start),
      drop2_(*this, "drop2", o.dropout) {}

Tensor TransformerBlock::operator()(const Tensor& x, KeyValues* past) const {
  const Tensor seen = past == nullptr ? attention_(norm1_(x)) : attention_(norm1_(x), *past);
  const Tensor y = add(x, drop1_(seen));
  return add(y, drop2_(down_(up_(norm2_(y)))));
}

}  // namespace belfry
