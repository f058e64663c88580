// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/flatten.h"

#include "belfry/autodiff/layer.h"

namespace belfry {
namespace {

class FlattenFactory : public LayerFactory {
 public:
  void declare(Schema&) override {}
  Shape shape_after(const LayerInput& in) const override { return Shape{in.row.size()}; }
  std::unique_ptr<Layer> build(Module&, const std::string&, const LayerInput&) const override {
    return std::make_unique<LayerOf<Tensor (*)(const Tensor&)>>(flatten);
  }
};

}  // namespace

void register_layer_flatten(Registry& registry) {
  registry.table<LayerEntry>().add(
      "flatten", {[] { return std::make_unique<FlattenFactory>(); }, "a row's values as one list"});
}

}  // namespace belfry
