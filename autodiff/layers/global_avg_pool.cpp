// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/global_avg_pool.h"

#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/layers/keys_internal.h"

namespace belfry {
namespace {

class GlobalAvgPoolFactory : public LayerFactory {
 public:
  void declare(Schema&) override {}
  Shape shape_after(const LayerInput& in) const override {
    require_image(in.row);
    return Shape{in.row[2]};
  }
  std::unique_ptr<Layer> build(Module&, const std::string&, const LayerInput&) const override {
    return std::make_unique<LayerOf<Tensor (*)(const Tensor&)>>(global_avg_pool);
  }
};

}  // namespace

void register_layer_global_avg_pool(Registry& registry) {
  registry.table<LayerEntry>().add("global_avg_pool",
                                   {[] { return std::make_unique<GlobalAvgPoolFactory>(); },
                                    "the mean of each channel over the image"});
}

}  // namespace belfry
