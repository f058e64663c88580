// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/reduce/sum.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {

Tensor sum(const Tensor& x) {
  require_float("sum", x);
  return recorded(
      "sum", reduce_all(x, 1), [](Backward& b) { spread_scalar(b.grad(), 1, b.into(0)); }, x);
}

void register_op_sum(Registry& registry) {
  registry.table<OpEntry>().add("sum", reduction_entry("sum of all elements", sum, false));
}

}  // namespace belfry
