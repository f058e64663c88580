// SPDX-License-Identifier: MIT
// Trains a network of one's own: custom_model [TOWERS] [IMAGES LABELS]
#include <belfry/belfry.h>

namespace bf = belfry;

struct Net : bf::Module {
  bf::Linear hidden{*this, "hidden", 784, 256, bf::Activation::relu};
  bf::Linear head{*this, "head", 256, 10};
  bf::Tensor forward(const bf::Tensor& x) { return head(hidden(x)); }
};

int main(int argc, char** argv) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  const std::string images = argc > 3 ? argv[2] : folder + "train-images-idx3-ubyte.gz";
  const std::string labels = argc > 3 ? argv[3] : folder + "train-labels-idx1-ubyte.gz";
  try {
    bf::Context ctx({.towers = argc > 1 ? argv[1] : "cpu:2", .seed = 1, .log = bf::Log::console()});
    bf::Loader loader(ctx, bf::idx(images, labels), {.batch = 128, .epochs = 5});
    bf::TowerGroup<Net> towers(
        ctx, bf::momentum({.lr = bf::cosine(0.1, "5e"), .momentum = 0.9}).clip_global_norm(1.0));
    for (const bf::Batch& batch : loader) {
      auto report = towers.step(batch, [](Net& net, const bf::Batch& shard, bf::Step& step) {
        bf::Tensor logits = net.forward(shard["image"]);
        step.report("accuracy", bf::correct(logits, shard["label"]));
        return bf::cross_entropy(logits, shard["label"]);  // (mean, weight)
      });
      if (report.update % 100 == 0)
        ctx.log("update {} loss {:.4f} accuracy {:.4f}", report.update, report.loss(),
                report.metrics["accuracy"]);
    }
    bf::Checkpoint("model", towers).save();
    return 0;
  } catch (const bf::Error& error) {
    bf::Log::console().error("{}", error.what());
    return 1;
  }
}
