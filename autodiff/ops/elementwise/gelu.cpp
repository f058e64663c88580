// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/gelu.h"

#include <cmath>

#include "belfry/autodiff/ops/elementwise/activate_internal.h"

namespace belfry {

Tensor gelu(const Tensor& x) { return activation_op(Activation::gelu, x); }

void register_op_gelu(Registry& registry) {
  registry.table<OpEntry>().add(
      "gelu", activation_entry("x Phi(x), tanh form", gelu, [](double v) {
        return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
      }));
}

}  // namespace belfry
