// SPDX-License-Identifier: MIT
#include "belfry/autodiff/layers/pool_internal.h"
#include "belfry/autodiff/nn/pool.h"

namespace belfry {

void register_layer_max_pool2d(Registry& registry) {
  registry.table<LayerEntry>().add("max_pool2d",
                                   {[] { return std::make_unique<PoolFactory<MaxPool2d>>(); },
                                    "the largest value of each window"});
}

}  // namespace belfry
