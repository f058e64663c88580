// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/silu.h"

#include "belfry/autodiff/layer.h"

namespace belfry {

void register_layer_silu(Registry& registry) {
  registry.table<LayerEntry>().add("silu", pointwise_layer(silu, "x / (1 + exp(-x))"));
}

}  // namespace belfry
