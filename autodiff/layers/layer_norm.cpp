// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/layer_norm.h"

#include "belfry/autodiff/layer.h"

namespace belfry {
namespace {

class LayerNormFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("eps", eps_, {.min = 1e-30, .max = 1, .help = "added to the variance"});
  }
  Shape shape_after(const LayerInput& in) const override { return in.row; }
  std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                               const LayerInput& in) const override {
    return std::make_unique<LayerOf<LayerNorm>>(parent, name, in.row[-1], eps_);
  }

 private:
  double eps_ = 1e-5;
};

}  // namespace

void register_layer_layer_norm(Registry& registry) {
  registry.table<LayerEntry>().add("layer_norm",
                                   {[] { return std::make_unique<LayerNormFactory>(); },
                                    "mean 0 and variance 1 over the last axis, then scaled"});
}

}  // namespace belfry
