// SPDX-License-Identifier: MIT
// The belfry command with a network of one's own, which configs name: [model] name = "mynet".
#include <belfry/belfry.h>

namespace bf = belfry;

struct MyNet : bf::Module {
  MyNet(const bf::Shape& image, std::int64_t classes)
      : hidden(*this, "hidden", image.size(), 128, bf::Activation::gelu),
        head(*this, "head", 128, classes) {}
  bf::Tensor forward(const bf::Tensor& x) { return head(drop(hidden(bf::flatten(x)))); }

  bf::Linear hidden;
  bf::Dropout drop{*this, "drop", 0.1};
  bf::Linear head;
};

int main(int argc, char** argv) {
  auto registry = bf::builtin();
  registry.model<MyNet>("mynet");
  return bf::cli(registry, argc, argv);
}
