// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/dropout.h"

#include "belfry/autodiff/layer.h"

namespace belfry {
namespace {

class DropoutFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("p", p_,
               {.min = 0,
                .max = 1,
                .exclusive_max = true,
                .help = "share of values set to 0 in training"});
  }
  Shape shape_after(const LayerInput& in) const override { return in.row; }
  std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                               const LayerInput&) const override {
    return std::make_unique<LayerOf<Dropout>>(parent, name, p_);
  }

 private:
  double p_ = 0.5;
};

}  // namespace

void register_layer_dropout(Registry& registry) {
  registry.table<LayerEntry>().add("dropout", {[] { return std::make_unique<DropoutFactory>(); },
                                               "sets values to 0 in training"});
}

}  // namespace belfry
