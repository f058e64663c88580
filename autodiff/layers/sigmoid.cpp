// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/sigmoid.h"

#include "belfry/autodiff/layer.h"

namespace belfry {

void register_layer_sigmoid(Registry& registry) {
  registry.table<LayerEntry>().add("sigmoid", pointwise_layer(sigmoid, "1 / (1 + exp(-x))"));
}

}  // namespace belfry
