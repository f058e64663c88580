// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/towers/models/resnet_internal.h"

namespace belfry {
namespace {

using Make = std::unique_ptr<Classifier> (*)(std::int64_t size, const Shape& image,
                                             std::int64_t classes);

class ResNetFactory : public ModelFactory {
 public:
  ResNetFactory(std::string name, Make make, std::int64_t size, std::int64_t least)
      : name_(std::move(name)), make_(make), size_(size), least_(least) {}
  void declare(Schema&) override {}
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    if (image.rank() != 3 || image[0] < least_ || image[1] < least_) {
      const std::string side = std::to_string(least_);
      throw ConfigError(
          ErrorText{.what = "model '" + name_ + "' cannot take these images",
                    .found = image.text(),
                    .expected = "[rows, columns, channels] of at least " + side + " x " + side,
                    .fix = least_ > 8 ? "use a model for small images, such as 'resnet20'"
                                      : "use model 'mlp' or 'softmax'"});
    }
    return make_(size_, image, classes);
  }
  // The ImageNet nets halve images five times: one pixel a row is left of the smallest ones.
  std::int64_t rows_needed(const Shape& image, std::int64_t) const override {
    return least_ == 32 && image[0] <= 32 && image[1] <= 32 ? 2 : 1;
  }

 private:
  std::string name_;
  Make make_;
  std::int64_t size_, least_;
};

void add(Registry& registry, const std::string& name, Make make, std::int64_t size,
         std::int64_t least, const std::string& help) {
  registry.table<ModelEntry>().add(
      name, {[=] { return std::make_unique<ResNetFactory>(name, make, size, least); }, help});
}

}  // namespace

void register_model_resnet(Registry& registry) {
  for (const std::int64_t layers : {20, 32, 56})
    add(registry, "resnet" + std::to_string(layers), cifar_resnet, (layers - 2) / 6, 8,
        "residual net for small images (He et al. 2015, CIFAR)");
  for (const std::int64_t layers : {18, 50})
    add(registry, "resnet" + std::to_string(layers), imagenet_resnet, layers, 32,
        "residual net for large images (He et al. 2015, ImageNet)");
}

}  // namespace belfry
