// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/mul.h"

#include "belfry/autodiff/ops/elementwise/binary_internal.h"

namespace belfry {

Tensor mul(const Tensor& a, const Tensor& b) { return binary_op("mul", Binary::mul, a, b); }

void register_op_mul(Registry& registry) {
  registry.table<OpEntry>().add(
      "mul", binary_entry("a * b", "mul", mul, [](double a, double b) { return a * b; }));
}

}  // namespace belfry
