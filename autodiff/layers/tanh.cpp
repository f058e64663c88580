// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/tanh.h"

#include "belfry/autodiff/layer.h"

namespace belfry {

void register_layer_tanh(Registry& registry) {
  registry.table<LayerEntry>().add("tanh", pointwise_layer(tanh, "hyperbolic tangent"));
}

}  // namespace belfry
