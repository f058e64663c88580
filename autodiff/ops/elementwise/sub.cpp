// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/sub.h"

#include "belfry/autodiff/ops/elementwise/binary_internal.h"

namespace belfry {

Tensor sub(const Tensor& a, const Tensor& b) { return binary_op("sub", Binary::sub, a, b); }

void register_op_sub(Registry& registry) {
  registry.table<OpEntry>().add(
      "sub", binary_entry("a - b", "sub", sub, [](double a, double b) { return a - b; }));
}

}  // namespace belfry
