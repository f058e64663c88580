// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/dropout.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/towers/model.h"

namespace belfry {
namespace {

struct MlpOptions {
  std::vector<std::int64_t> hidden{256, 128};
  std::string activation = "relu";
  double dropout = 0;
};

// Fully connected layers hidden.0, hidden.1, ... and head.
class Mlp : public Classifier {
 public:
  Mlp(const MlpOptions& options, const Shape& image, std::int64_t classes)
      : inputs_(image.size()),
        head_(*this, "head", options.hidden.empty() ? inputs_ : options.hidden.back(), classes) {
    std::int64_t width = inputs_;
    for (const std::int64_t next : options.hidden) {
      layers_.add(width, next, parse_activation(options.activation));
      drops_.add(options.dropout);
      width = next;
    }
  }
  Tensor forward(const Tensor& image) override {
    Tensor x = reshape(image, {image.shape()[0], inputs_});
    for (std::size_t i = 0; i < layers_.size(); ++i) x = drops_[i](layers_[i](x));
    return head_(x);
  }

 private:
  std::int64_t inputs_;
  ModuleList<Linear> layers_{*this, "hidden"};
  ModuleList<Dropout> drops_{*this, "dropout"};
  Linear head_;
};

class MlpFactory : public ModelFactory {
 public:
  void declare(Schema& schema) override {
    schema
        .key("hidden", options_.hidden,
             {.min = 1, .max = 1e6, .help = "widths of the hidden layers"})
        .key("activation", options_.activation,
             {.choices = {"relu", "tanh", "sigmoid", "gelu"}, .help = "after each hidden layer"})
        .key("dropout", options_.dropout,
             {.min = 0,
              .max = 1,
              .exclusive_max = true,
              .help = "share of hidden values set to 0 in training"});
  }
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    return std::make_unique<Mlp>(options_, image, classes);
  }
  std::string size_keys() const override { return "model.hidden"; }

 private:
  MlpOptions options_;
};

}  // namespace

void register_model_mlp(Registry& registry) {
  registry.table<ModelEntry>().add(
      "mlp", {[] { return std::make_unique<MlpFactory>(); }, "fully connected layers"});
}

}  // namespace belfry
