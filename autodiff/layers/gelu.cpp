// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/gelu.h"

#include "belfry/autodiff/layer.h"

namespace belfry {

void register_layer_gelu(Registry& registry) {
  registry.table<LayerEntry>().add(
      "gelu", pointwise_layer(gelu, "x times the normal distribution, in its tanh form"));
}

}  // namespace belfry
