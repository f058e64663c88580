// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/reduce/mean.h"

#include <algorithm>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {

Tensor mean(const Tensor& x) {
  require_float("mean", x);
  const auto count = static_cast<double>(std::max<std::int64_t>(x.size(), 1));
  return recorded(
      "mean", reduce_all(x, count),
      [count](Backward& b) { spread_scalar(b.grad(), count, b.into(0)); }, x);
}

void register_op_mean(Registry& registry) {
  registry.table<OpEntry>().add("mean", reduction_entry("mean of all elements", mean, true));
}

}  // namespace belfry
