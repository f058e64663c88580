// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/linear.h"

#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/layers/keys_internal.h"

namespace belfry {
namespace {

class LinearFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("out", out_, {.min = 0, .max = 1e7, .help = "values of a row; 0: one a class"});
    declare_activation(schema, activation_);
    schema.key("bias", bias_, {.help = "whether it adds a bias"});
  }
  Shape shape_after(const LayerInput& in) const override {
    const int rank = in.row.rank();
    if (rank != 1 && rank != 2)
      throw_layer_input("it takes lists of values", in.row, "[values] or [positions, values]",
                        rank == 3 ? "put \"flatten\" before it" : "");
    const std::int64_t width = outputs(in);
    return rank == 1 ? Shape{width} : Shape{in.row[0], width};
  }
  std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                               const LayerInput& in) const override {
    return std::make_unique<LayerOf<Linear>>(parent, name, in.row[-1], outputs(in),
                                             parse_activation(activation_), bias_);
  }

 private:
  std::int64_t outputs(const LayerInput& in) const { return out_ == 0 ? in.classes : out_; }
  std::int64_t out_ = 0;
  std::string activation_ = "none";
  bool bias_ = true;
};

}  // namespace

void register_layer_linear(Registry& registry) {
  registry.table<LayerEntry>().add("linear", {[] { return std::make_unique<LinearFactory>(); },
                                              "fully connected, over the last axis"});
}

}  // namespace belfry
