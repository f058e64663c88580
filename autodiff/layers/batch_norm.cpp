// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/batch_norm.h"

#include "belfry/autodiff/layer.h"

namespace belfry {
namespace {

class BatchNormFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("momentum", momentum_,
               {.min = 0,
                .max = 1,
                .exclusive_min = true,
                .help = "share of each update in the running statistics"});
    schema.key("eps", eps_, {.min = 1e-30, .max = 1, .help = "added to the variance"});
    schema.key("activation", activation_, {.choices = {"none", "relu"}, .help = "of the result"});
  }
  Shape shape_after(const LayerInput& in) const override {
    if (in.row.rank() != 1 && in.row.rank() != 3)
      throw_layer_input("it takes images or lists of values", in.row,
                        "[rows, columns, channels] or [values]");
    return in.row;
  }
  std::int64_t rows_needed(const LayerInput& in) const override {
    return in.row.size() == in.row[-1] ? 2 : 1;
  }
  std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                               const LayerInput& in) const override {
    return std::make_unique<LayerOf<BatchNorm>>(parent, name, in.row[-1],
                                                parse_activation(activation_), momentum_, eps_);
  }

 private:
  double momentum_ = 0.1, eps_ = 1e-5;
  std::string activation_ = "none";
};

}  // namespace

void register_layer_batch_norm(Registry& registry) {
  registry.table<LayerEntry>().add("batch_norm",
                                   {[] { return std::make_unique<BatchNormFactory>(); },
                                    "each channel to mean 0 and variance 1 over the rows"});
}

}  // namespace belfry
