// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/towers/model.h"

namespace belfry {
namespace {

// Softmax regression: one layer without activation.
class Softmax : public Classifier {
 public:
  Softmax(const Shape& image, std::int64_t classes)
      : inputs_(image.size()), head_(*this, "head", inputs_, classes) {}
  Tensor forward(const Tensor& image) override {
    return head_(reshape(image, {image.shape()[0], inputs_}));
  }

 private:
  std::int64_t inputs_;
  Linear head_;
};

class SoftmaxFactory : public ModelFactory {
 public:
  void declare(Schema&) override {}
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    return std::make_unique<Softmax>(image, classes);
  }
};

}  // namespace

void register_model_softmax(Registry& registry) {
  registry.table<ModelEntry>().add("softmax", {[] { return std::make_unique<SoftmaxFactory>(); },
                                               "softmax regression: one linear layer"});
}

}  // namespace belfry
