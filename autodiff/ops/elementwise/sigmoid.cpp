// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/sigmoid.h"

#include <cmath>

#include "belfry/autodiff/ops/elementwise/activate_internal.h"

namespace belfry {

Tensor sigmoid(const Tensor& x) { return activation_op(Activation::sigmoid, x); }

void register_op_sigmoid(Registry& registry) {
  registry.table<OpEntry>().add("sigmoid",
                                activation_entry("1 / (1 + exp(-x))", sigmoid,
                                                 [](double v) { return 1 / (1 + std::exp(-v)); }));
}

}  // namespace belfry
