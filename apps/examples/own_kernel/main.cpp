// SPDX-License-Identifier: MIT
// An op with kernels of one's own: own_kernel [TOWERS]. It learns the signs of a product.
#include <belfry/belfry.h>

#include "softsign.kernel.h"

namespace bf = belfry;

bf::Tensor softsign(const bf::Tensor& x) {
  const auto forward = [](std::span<const bf::Tensor> in) {
    bf::Tensor y = bf::Tensor::empty(in[0].shape(), in[0].dtype(), in[0].device());
    bf::launch_elements(y.device().main(), static_cast<std::size_t>(y.size()),
                        SoftsignForward{in[0].data<float>(), y.data<float>()});
    return y;
  };
  const auto backward = [](bf::Backward& b, std::span<const bf::Tensor>, const bf::Tensor& y) {
    bf::launch_elements(
        y.device().main(), static_cast<std::size_t>(y.size()),
        SoftsignBackward{b.grad().data<float>(), y.data<float>(), b.into(0).data<float>()});
  };
  return bf::custom_op("softsign", {x}, forward, backward);
}

struct Net : bf::Module {
  bf::Linear hidden{*this, "hidden", 2, 16};
  bf::Linear head{*this, "head", 16, 2};
  bf::Tensor forward(const bf::Tensor& x) { return head(softsign(hidden(x))); }
};

int main(int argc, char** argv) {
  try {
    const std::string towers = argc > 1 ? argv[1] : "cpu:2";
    bf::ContextOptions options{.towers = towers, .seed = 1};
    if (towers.starts_with("cuda")) options.kernels = {SOFTSIGN_KERNELS};
    bf::Context ctx(options);
    std::vector<float> points;
    std::vector<std::int32_t> labels;
    for (int i = 0; i < 400; ++i) {
      const float x = static_cast<float>(i % 20) / 10 - 0.95f;
      const float y = static_cast<float>(i / 20) / 10 - 0.95f;
      points.insert(points.end(), {x, y});
      labels.push_back(x * y > 0);
    }
    bf::Loader loader(ctx, bf::memory_dataset(points, bf::Shape{2}, labels, 2),
                      {.batch = 50, .epochs = 60});
    bf::TowerGroup<Net> group(ctx, bf::adam({.lr = 0.02}));
    double accuracy = 0;
    for (const bf::Batch& batch : loader)
      accuracy = group
                     .step(batch,
                           [](Net& net, const bf::Batch& shard, bf::Step& step) {
                             bf::Tensor logits = net.forward(shard["image"]);
                             step.report("accuracy", bf::correct(logits, shard["label"]));
                             return bf::cross_entropy(logits, shard["label"]);
                           })
                     .metrics["accuracy"];
    bf::Log::console().info("accuracy {:.2f}", accuracy);
    return accuracy > 0.9 ? 0 : 1;
  } catch (const bf::Error& error) {
    bf::Log::console().error("{}", error.what());
    return 1;
  }
}
