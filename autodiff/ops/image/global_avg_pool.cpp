// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/global_avg_pool.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/image/global_avg_pool.kernel.h"

namespace belfry {

Tensor global_avg_pool(const Tensor& x) {
  require_float("global_avg_pool", x);
  require_rank("global_avg_pool", x, 4, "input");
  const auto images = static_cast<std::size_t>(x.shape()[0]),
             channels = static_cast<std::size_t>(x.shape()[3]),
             pixels = static_cast<std::size_t>(x.shape()[1] * x.shape()[2]);
  if (pixels == 0)
    throw_op("global_avg_pool", "an image without pixels", x.shape().text(), "at least 1 pixel");
  return with_float("global_avg_pool", x, [&](auto scalar) {
    using T = decltype(scalar);
    Tensor y = Tensor::empty({x.shape()[0], x.shape()[3]}, x.dtype(), x.device());
    launch_rows(stream_of(x), images,
                GlobalAvgPoolForward<T>{x.data<T>(), y.data<T>(), pixels, channels});
    const auto backward = [=](Backward& b) {
      const Tensor dx = b.into(0);
      launch_rows(stream_of(dx), images,
                  GlobalAvgPoolBackward<T>{b.grad().data<T>(), dx.data<T>(), pixels, channels});
    };
    return recorded("global_avg_pool", std::move(y), backward, x);
  });
}

namespace {

OpCase pool_case(const char* label, const Shape& x) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(x)};
  c.run = [](std::span<const Tensor> t) { return global_avg_pool(t[0]); };
  c.reference = [x](std::span<const std::vector<double>> v) {
    const auto channels = static_cast<std::size_t>(x[3]),
               image = static_cast<std::size_t>(x[1] * x[2] * x[3]);
    std::vector<double> y(static_cast<std::size_t>(x[0] * x[3]));
    for (std::size_t i = 0; i < v[0].size(); ++i)
      y[i / image * channels + i % channels] += v[0][i] / static_cast<double>(x[1] * x[2]);
    return y;
  };
  return c;
}

}  // namespace

void register_op_global_avg_pool(Registry& registry) {
  OpEntry entry;
  entry.help = "mean over all pixels of NHWC images";
  entry.cases = [] {
    return std::vector<OpCase>{pool_case("normal", {2, 8, 8, 64}), pool_case("odd", {3, 5, 7, 3}),
                               pool_case("many channels", {2, 3, 3, 130}),
                               pool_case("one element", {1, 1, 1, 1}),
                               pool_case("empty", {0, 4, 4, 3})};
  };
  entry.misuses = [] {
    const auto call = [](const Shape& x, DType type = DType::f32) {
      return [=](Device& d) { global_avg_pool(Tensor::zeros(x, type, d)); };
    };
    return std::vector<OpMisuse>{
        {"rank", call({8, 8, 3}), {"global_avg_pool", "input", "[8, 8, 3]"}},
        {"no pixels", call({2, 0, 8, 3}), {"global_avg_pool", "[2, 0, 8, 3]", "pixel"}},
        {"integers", call({1, 4, 4, 1}, DType::i32), {"global_avg_pool", "i32"}},
    };
  };
  registry.table<OpEntry>().add("global_avg_pool", std::move(entry));
}

}  // namespace belfry
