// SPDX-License-Identifier: MIT
#include "belfry/autodiff/layers/pool_internal.h"
#include "belfry/autodiff/nn/pool.h"

namespace belfry {

void register_layer_avg_pool2d(Registry& registry) {
  registry.table<LayerEntry>().add(
      "avg_pool2d",
      {[] { return std::make_unique<PoolFactory<AvgPool2d>>(); }, "the mean of each window"});
}

}  // namespace belfry
