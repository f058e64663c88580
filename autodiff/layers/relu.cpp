// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/relu.h"

#include "belfry/autodiff/layer.h"

namespace belfry {

void register_layer_relu(Registry& registry) {
  registry.table<LayerEntry>().add("relu", pointwise_layer(relu, "max(x, 0)"));
}

}  // namespace belfry
