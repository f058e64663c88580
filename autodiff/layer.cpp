// SPDX-License-Identifier: MIT
#include "belfry/autodiff/layer.h"

#include "belfry/core/error.h"

namespace belfry {
namespace {

using Pointwise = Tensor (*)(const Tensor&);

class PointwiseFactory : public LayerFactory {
 public:
  explicit PointwiseFactory(Pointwise f) : f_(f) {}
  void declare(Schema&) override {}
  Shape shape_after(const LayerInput& in) const override { return in.row; }
  std::unique_ptr<Layer> build(Module&, const std::string&, const LayerInput&) const override {
    return std::make_unique<LayerOf<Pointwise>>(f_);
  }

 private:
  Pointwise f_;
};

}  // namespace

LayerEntry pointwise_layer(Tensor (*f)(const Tensor&), std::string help) {
  return {[f] { return std::make_unique<PointwiseFactory>(f); }, std::move(help)};
}

void throw_layer_input(const std::string& what, const Shape& found, const std::string& expected,
                       const std::string& fix) {
  throw ConfigError(
      ErrorText{.what = what, .found = found.text(), .expected = expected, .fix = fix});
}

}  // namespace belfry
