// SPDX-License-Identifier: MIT
#include "belfry/towers/models/resnet_internal.h"

#include <array>
#include <cmath>
#include <optional>

#include "belfry/autodiff/nn/batch_norm.h"
#include "belfry/autodiff/nn/conv2d.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/image/global_avg_pool.h"
#include "belfry/autodiff/ops/image/max_pool2d.h"

namespace belfry {
namespace {

// A square convolution without bias that keeps the image's size but for its stride.
class Conv : public Conv2d {
 public:
  Conv(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
       std::int64_t kernel, std::int64_t stride = 1)
      : Conv2d(parent, name, in, out, kernel, {.stride = stride, .padding = kernel / 2},
               Activation::none, false,
               Init::normal(std::sqrt(2.0 / static_cast<double>(kernel * kernel * out)))) {}
};

class Projection : public Module {
 public:
  Projection(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
             std::int64_t stride)
      : Module(parent, name), conv_(*this, "0", in, out, 1, stride), norm_(*this, "1", out) {}
  Tensor operator()(const Tensor& x) const { return norm_(conv_(x)); }

 private:
  Conv conv_;
  BatchNorm norm_;
};

// What goes around a block: x itself where shapes allow.
std::unique_ptr<Projection> shortcut(Module& block, std::int64_t in, std::int64_t out,
                                     std::int64_t stride) {
  if (stride == 1 && in == out) return nullptr;
  return std::make_unique<Projection>(block, "downsample", in, out, stride);
}

class Block : public Module {
 public:
  static constexpr std::int64_t kExpansion = 1;
  Block(Module& parent, const std::string& name, std::int64_t in, std::int64_t width,
        std::int64_t stride)
      : Module(parent, name),
        conv1_(*this, "conv1", in, width, 3, stride),
        bn1_(*this, "bn1", width, Activation::relu),
        conv2_(*this, "conv2", width, width, 3),
        bn2_(*this, "bn2", width, Activation::relu),
        shortcut_(shortcut(*this, in, width, stride)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = conv2_(bn1_(conv1_(x)));
    return bn2_(y, shortcut_ ? (*shortcut_)(x) : x);
  }

 private:
  Conv conv1_;
  BatchNorm bn1_;
  Conv conv2_;
  BatchNorm bn2_;
  std::unique_ptr<Projection> shortcut_;
};

class Bottleneck : public Module {
 public:
  static constexpr std::int64_t kExpansion = 4;
  Bottleneck(Module& parent, const std::string& name, std::int64_t in, std::int64_t width,
             std::int64_t stride)
      : Module(parent, name),
        conv1_(*this, "conv1", in, width, 1),
        bn1_(*this, "bn1", width, Activation::relu),
        conv2_(*this, "conv2", width, width, 3, stride),
        bn2_(*this, "bn2", width, Activation::relu),
        conv3_(*this, "conv3", width, kExpansion * width, 1),
        bn3_(*this, "bn3", kExpansion * width, Activation::relu),
        shortcut_(shortcut(*this, in, kExpansion * width, stride)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = conv3_(bn2_(conv2_(bn1_(conv1_(x)))));
    return bn3_(y, shortcut_ ? (*shortcut_)(x) : x);
  }

 private:
  Conv conv1_;
  BatchNorm bn1_;
  Conv conv2_;
  BatchNorm bn2_;
  Conv conv3_;
  BatchNorm bn3_;
  std::unique_ptr<Projection> shortcut_;
};

// The channels of a block's output.
template <class B>
std::int64_t channels_of(std::int64_t width) {
  return width * B::kExpansion;
}

// `count` blocks, the first with the stride.
template <class B>
class Stage : public ModuleList<B> {
 public:
  Stage(Module& parent, const std::string& name, std::int64_t in, std::int64_t width,
        std::int64_t count, std::int64_t stride)
      : ModuleList<B>(parent, name) {
    for (std::int64_t k = 0; k < count; ++k)
      this->add(k == 0 ? in : channels_of<B>(width), width, k == 0 ? stride : 1);
  }
  Tensor operator()(Tensor x) {
    for (auto& block : *this) x = (*block)(x);
    return x;
  }
};

class CifarResNet : public Classifier {
 public:
  CifarResNet(std::int64_t n, std::int64_t channels, std::int64_t classes)
      : conv1_(*this, "conv1", channels, 16, 3),
        bn1_(*this, "bn1", 16, Activation::relu),
        layer1_(*this, "layer1", 16, 16, n, 1),
        layer2_(*this, "layer2", 16, 32, n, 2),
        layer3_(*this, "layer3", 32, 64, n, 2),
        fc_(*this, "fc", 64, classes) {}
  Tensor forward(const Tensor& image) override {
    return fc_(global_avg_pool(layer3_(layer2_(layer1_(bn1_(conv1_(image)))))));
  }

 private:
  Conv conv1_;
  BatchNorm bn1_;
  Stage<Block> layer1_, layer2_, layer3_;
  Linear fc_;
};

using Counts = std::array<std::int64_t, 4>;

template <class B>
class ImageNetResNet : public Classifier {
 public:
  ImageNetResNet(const Counts& blocks, std::int64_t channels, std::int64_t classes)
      : conv1_(*this, "conv1", channels, 64, 7, 2),
        bn1_(*this, "bn1", 64, Activation::relu),
        layer1_(*this, "layer1", 64, 64, blocks[0], 1),
        layer2_(*this, "layer2", channels_of<B>(64), 128, blocks[1], 2),
        layer3_(*this, "layer3", channels_of<B>(128), 256, blocks[2], 2),
        layer4_(*this, "layer4", channels_of<B>(256), 512, blocks[3], 2),
        fc_(*this, "fc", channels_of<B>(512), classes) {}
  Tensor forward(const Tensor& image) override {
    const Tensor x = max_pool2d(bn1_(conv1_(image)), {.kernel = 3, .stride = 2, .padding = 1});
    return fc_(global_avg_pool(layer4_(layer3_(layer2_(layer1_(x))))));
  }

 private:
  Conv conv1_;
  BatchNorm bn1_;
  Stage<B> layer1_, layer2_, layer3_, layer4_;
  Linear fc_;
};

}  // namespace

std::unique_ptr<Classifier> cifar_resnet(std::int64_t n, const Shape& image, std::int64_t classes) {
  return std::make_unique<CifarResNet>(n, image[2], classes);
}

std::unique_ptr<Classifier> imagenet_resnet(std::int64_t layers, const Shape& image,
                                            std::int64_t classes) {
  const Counts blocks = layers == 18 ? Counts{2, 2, 2, 2} : Counts{3, 4, 6, 3};
  if (layers < 50) return std::make_unique<ImageNetResNet<Block>>(blocks, image[2], classes);
  return std::make_unique<ImageNetResNet<Bottleneck>>(blocks, image[2], classes);
}

}  // namespace belfry
