// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/add.h"

#include "belfry/autodiff/ops/elementwise/binary_internal.h"

namespace belfry {

Tensor add(const Tensor& a, const Tensor& b) { return binary_op("add", Binary::add, a, b); }

void register_op_add(Registry& registry) {
  registry.table<OpEntry>().add(
      "add", binary_entry("a + b", "add", add, [](double a, double b) { return a + b; }));
}

}  // namespace belfry
