// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/relu.h"

#include <cmath>

#include "belfry/autodiff/ops/elementwise/activate_internal.h"

namespace belfry {

Tensor relu(const Tensor& x) { return activation_op(Activation::relu, x); }

void register_op_relu(Registry& registry) {
  registry.table<OpEntry>().add(
      "relu", activation_entry("max(x, 0)", relu, [](double v) { return v > 0 ? v : 0.0; }));
}

}  // namespace belfry
