// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/tanh.h"

#include <cmath>

#include "belfry/autodiff/ops/elementwise/activate_internal.h"

namespace belfry {

Tensor tanh(const Tensor& x) { return activation_op(Activation::tanh, x); }

void register_op_tanh(Registry& registry) {
  registry.table<OpEntry>().add(
      "tanh", activation_entry("hyperbolic tangent", tanh, [](double v) { return std::tanh(v); }));
}

}  // namespace belfry
