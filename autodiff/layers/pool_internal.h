// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/layers/keys_internal.h"
#include "belfry/autodiff/ops/image/pool.h"

namespace belfry {

// The pools' keys and shapes; Pool is constructed from PoolOptions.
template <class Pool>
class PoolFactory : public LayerFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("kernel", options_.kernel, {.min = 1, .max = 1024, .help = "side of the windows"});
    schema.key("stride", options_.stride,
               {.min = 0, .max = 1024, .help = "pixels between them; 0: the kernel"});
    schema.key("padding", options_.padding,
               {.min = 0, .max = 512, .help = "on all four sides, at most half the kernel"});
    schema.rule([this] {
      return options_.padding > options_.kernel / 2
                 ? "padding: found " + std::to_string(options_.padding) +
                       ", expected at most kernel / 2 = " + std::to_string(options_.kernel / 2)
                 : std::string();
    });
  }
  Shape shape_after(const LayerInput& in) const override {
    require_image(in.row);
    const std::int64_t stride = options_.stride == 0 ? options_.kernel : options_.stride;
    return {windows(in.row, 0, options_.kernel, stride, options_.padding),
            windows(in.row, 1, options_.kernel, stride, options_.padding), in.row[2]};
  }
  std::unique_ptr<Layer> build(Module&, const std::string&, const LayerInput&) const override {
    return std::make_unique<LayerOf<Pool>>(options_);
  }

 private:
  PoolOptions options_;
};

}  // namespace belfry
