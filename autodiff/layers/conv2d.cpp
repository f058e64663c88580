// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/conv2d.h"

#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/layers/keys_internal.h"

namespace belfry {
namespace {

class Conv2dFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("out", out_, {.min = 1, .max = 1e6, .help = "channels of the result"});
    schema.key("kernel", kernel_, {.min = 1, .max = 1024, .help = "side of the windows"});
    schema.key("stride", options_.stride, {.min = 1, .max = 1024, .help = "pixels between them"});
    schema.key("padding", options_.padding,
               {.min = 0, .max = 1024, .help = "zeros on all four sides"});
    declare_activation(schema, activation_);
    schema.key("bias", bias_, {.help = "whether it adds a bias"});
  }
  Shape shape_after(const LayerInput& in) const override {
    require_image(in.row);
    return {windows(in.row, 0, kernel_, options_.stride, options_.padding),
            windows(in.row, 1, kernel_, options_.stride, options_.padding), out_};
  }
  std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                               const LayerInput& in) const override {
    return std::make_unique<LayerOf<Conv2d>>(parent, name, in.row[2], out_, kernel_, options_,
                                             parse_activation(activation_), bias_);
  }

 private:
  std::int64_t out_ = 32, kernel_ = 3;
  Conv2dOptions options_;
  std::string activation_ = "none";
  bool bias_ = true;
};

}  // namespace

void register_layer_conv2d(Registry& registry) {
  registry.table<LayerEntry>().add("conv2d", {[] { return std::make_unique<Conv2dFactory>(); },
                                              "convolution of images with a square kernel"});
}

}  // namespace belfry
