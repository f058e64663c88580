// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/conv2d.h"
#include "belfry/autodiff/nn/dropout.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/elementwise/relu.h"
#include "belfry/autodiff/ops/image/max_pool2d.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/core/error.h"
#include "belfry/towers/model.h"

namespace belfry {
namespace {

// An image side after conv1 (5x5, padding 2), a pool, conv2 (5x5) and a pool.
std::int64_t side_after(std::int64_t side) { return (side / 2 - 4) / 2; }

// LeNet-5 after LeCun et al., "Gradient-based learning applied to document recognition", 1998, with
// ReLU and max-pooling.
class LeNet : public Classifier {
 public:
  LeNet(const Shape& image, std::int64_t classes, double dropout)
      : flat_(16 * side_after(image[0]) * side_after(image[1])),
        conv1_(*this, "conv1", image[2], 6, 5, {.padding = 2}),
        conv2_(*this, "conv2", 6, 16, 5),
        fc1_(*this, "fc1", flat_, 120, Activation::relu),
        drop1_(*this, "drop1", dropout),
        fc2_(*this, "fc2", 120, 84, Activation::relu),
        drop2_(*this, "drop2", dropout),
        head_(*this, "head", 84, classes) {}
  Tensor forward(const Tensor& image) override {
    // ReLU keeps the order of numbers, so behind the pool it gives the same and has a quarter to
    // do.
    const Tensor c = relu(max_pool2d(conv2_(relu(max_pool2d(conv1_(image))))));
    const Tensor x = drop1_(fc1_(reshape(c, {image.shape()[0], flat_})));
    return head_(drop2_(fc2_(x)));
  }

 private:
  std::int64_t flat_;
  Conv2d conv1_, conv2_;
  Linear fc1_;
  Dropout drop1_;
  Linear fc2_;
  Dropout drop2_;
  Linear head_;
};

class LeNetFactory : public ModelFactory {
 public:
  void declare(Schema& schema) override {
    schema.key(
        "dropout", dropout_,
        {.min = 0, .max = 1, .exclusive_max = true, .help = "after each hidden linear layer"});
  }
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    if (image.rank() != 3 || image[0] < 16 || image[1] < 16)
      throw ConfigError(ErrorText{.what = "model 'lenet' cannot take these images",
                                  .found = image.text(),
                                  .expected = "[rows, columns, channels] of at least 16 x 16",
                                  .fix = "use model 'mlp' or 'softmax'"});
    return std::make_unique<LeNet>(image, classes, dropout_);
  }

 private:
  double dropout_ = 0;
};

}  // namespace

void register_model_lenet(Registry& registry) {
  registry.table<ModelEntry>().add("lenet", {[] { return std::make_unique<LeNetFactory>(); },
                                             "LeNet-5 with ReLU and max-pooling"});
}

}  // namespace belfry
