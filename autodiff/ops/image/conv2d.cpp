// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/conv2d.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/elementwise/activate_internal.h"
#include "belfry/autodiff/ops/image/conv2d.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_backward.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/autodiff/ops/image/lane_conv_internal.h"
#include "belfry/autodiff/ops/image/winograd_internal.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"
#include "belfry/device/cpu/onednn_internal.h"

namespace belfry {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  require_float("conv2d", x);
  require_rank("conv2d", x, 4, "input");
  require_rank("conv2d", weight, 4, "weight");
  require_like("conv2d", x, weight, "weight");
  if (x.shape()[3] != weight.shape()[3])
    throw_op("conv2d", "input and weight do not fit",
             "input " + x.shape().text() + ", weight " + weight.shape().text(),
             "an input of " + std::to_string(weight.shape()[3]) + " channels");
  if (weight.size() == 0)
    throw_op("conv2d", "weight is empty", weight.shape().text(), "positive extents");
  if (o.stride < 1 || o.padding < 0)
    throw_op("conv2d", "stride or padding is out of range",
             "stride " + std::to_string(o.stride) + ", padding " + std::to_string(o.padding),
             "stride >= 1, padding >= 0");
  if (x.shape()[1] + 2 * o.padding < weight.shape()[1] ||
      x.shape()[2] + 2 * o.padding < weight.shape()[2])
    throw_op("conv2d", "image is smaller than the kernel",
             "input " + x.shape().text() + ", weight " + weight.shape().text() + ", padding " +
                 std::to_string(o.padding),
             "a padded image of at least the kernel's size");
  if (!bias.defined()) return;
  require_like("conv2d", x, bias, "bias");
  require_shape("conv2d", bias, {weight.shape()[0]}, "bias");
}

ConvShape shape_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& o) {
  ConvShape s;
  s.n = x.shape()[0], s.h = x.shape()[1], s.w = x.shape()[2], s.in = x.shape()[3];
  s.out = weight.shape()[0], s.kh = weight.shape()[1], s.kw = weight.shape()[2];
  s.stride = o.stride, s.padding = o.padding, s.bias = bias.defined() ? 1 : 0;
  s.oh = (s.h + 2 * s.padding - s.kh) / s.stride + 1;
  s.ow = (s.w + 2 * s.padding - s.kw) / s.stride + 1;
  return s;
}

OneDnn* onednn_of(Device& device) {
  return device.id().backend == Backend::cpu ? &device.slot<OneDnn>() : nullptr;
}

void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& y) {
  if (y.size() == 0) return;
  with_float("conv2d", x, [&](auto scalar) {
    using T = decltype(scalar);
    const T* b = bias.defined() ? bias.data<T>() : nullptr;
    const ConvForward<T> loops{s, x.data<T>(), weight.data<T>(), b, y.data<T>()};
    if constexpr (std::is_same_v<T, float>)
      launch_rows(stream_of(x), 1,
                  ConvForwardCall{s, loops.x, loops.weight, b, loops.y, onednn_of(x.device())});
    else
      launch_rows(stream_of(x), conv_forward_rows(s), loops);
  });
}

void backward_data(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  if (dx.size() == 0) return;
  with_float("conv2d", dy, [&](auto scalar) {
    using T = decltype(scalar);
    const ConvBackwardData<T> loops{s, dy.data<T>(), weight.data<T>(), dx.data<T>()};
    if constexpr (std::is_same_v<T, float>)
      launch_rows(
          stream_of(dy), 1,
          ConvBackwardDataCall{s, loops.dy, loops.weight, loops.dx, onednn_of(dy.device())});
    else
      launch_rows(stream_of(dy), conv_backward_data_rows(s), loops);
  });
}

void backward_weights(const ConvShape& s, const Tensor& x, const Tensor& dy,
                      const Tensor& dweight) {
  if (dy.size() == 0) return fill_zero(dweight);
  with_float("conv2d", dy, [&](auto scalar) {
    using T = decltype(scalar);
    const ConvBackwardWeights<T> loops{s, x.data<T>(), dy.data<T>(), dweight.data<T>()};
    if constexpr (std::is_same_v<T, float>)
      launch_rows(
          stream_of(dy), 1,
          ConvBackwardWeightsCall{s, loops.x, loops.dy, loops.dweight, onednn_of(dy.device())});
    else
      launch_rows(stream_of(dy), conv_backward_weights_rows(s), loops);
  });
}

struct Saved {
  ConvShape shape;
  Tensor x, weight, activated;
  Activation activation;
};

void backward(Backward& b, const Saved& s) {
  Tensor g;
  if (s.activation == Activation::none) {
    g = b.grad();
  } else {  // once, for all three gradients
    g = masked_gradient_memory(b.grad());
    activate_backward(s.activation, b.grad(), s.activated, g);
  }
  if (b.wants(0)) backward_data(s.shape, g, s.weight, b.into(0));
  if (b.wants(1)) backward_weights(s.shape, s.x, g, b.into(1));
  if (b.wants(2)) column_sum("conv2d", g, b.into(2));
}

}  // namespace

void ConvForwardCall::operator()(HostTeam&, std::size_t) const {
  if (lane_conv_forward(s, x, weight, bias, y)) return;
  if (winograd_forward(s, x, weight, bias, y)) return;
  if (onednn->conv_forward(s, x, weight, bias, y)) return;
  const ConvForward<float> loops{s, x, weight, bias, y};
  host_rows<ConvForward<float>>(&loops, 0, conv_forward_rows(s));
}

void ConvBackwardDataCall::operator()(HostTeam&, std::size_t) const {
  if (lane_conv_backward_data(s, dy, weight, dx)) return;
  if (winograd_backward_data(s, dy, weight, dx)) return;
  if (onednn->conv_backward_data(s, dy, weight, dx)) return;
  const ConvBackwardData<float> loops{s, dy, weight, dx};
  host_rows<ConvBackwardData<float>>(&loops, 0, conv_backward_data_rows(s));
}

void ConvBackwardWeightsCall::operator()(HostTeam&, std::size_t) const {
  if (lane_conv_backward_weights(s, x, dy, dweight)) return;
  if (winograd_backward_weights(s, x, dy, dweight)) return;
  if (onednn->conv_backward_weights(s, x, dy, dweight)) return;
  const ConvBackwardWeights<float> loops{s, x, dy, dweight};
  host_rows<ConvBackwardWeights<float>>(&loops, 0, conv_backward_weights_rows(s));
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options,
              Activation activation) {
  check(x, weight, bias, options);
  const ConvShape s = shape_of(x, weight, bias, options);
  Tensor y = Tensor::empty({s.n, s.oh, s.ow, s.out}, x.dtype(), x.device());
  forward(s, x, weight, bias, y);
  Saved saved{s, x.detach(), weight.detach(), {}, activation};  // activation apart: see linear
  if (saves_input(activation)) {
    saved.activated = y;
    y = Tensor::empty(y.shape(), y.dtype(), y.device());
    activate(activation, saved.activated, y);
  } else if (activation != Activation::none) {
    activate(activation, y, y);
    saved.activated = y;
  }
  return recorded(
      "conv2d", std::move(y), [saved](Backward& b) { backward(b, saved); }, x, weight, bias);
}

namespace {

// Scatters: every input pixel into every output it reaches. Independent of the kernels, which
// gather.
std::vector<double> reference(const ConvShape& s, std::span<const std::vector<double>> v,
                              bool relu) {
  std::vector<double> y(static_cast<std::size_t>(s.n * s.oh * s.ow * s.out));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t p = 0; p < s.n * s.h * s.w; ++p)
    for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
      const std::int64_t ty = p / s.w % s.h + s.padding - t / s.kw,
                         tx = p % s.w + s.padding - t % s.kw;
      if (ty < 0 || tx < 0 || ty % s.stride != 0 || tx % s.stride != 0) continue;
      if (ty / s.stride >= s.oh || tx / s.stride >= s.ow) continue;
      const std::int64_t q = (p / (s.h * s.w) * s.oh + ty / s.stride) * s.ow + tx / s.stride;
      for (std::int64_t o = 0; o < s.out; ++o)
        for (std::int64_t c = 0; c < s.in; ++c)
          y[at(q * s.out + o)] +=
              v[0][at(p * s.in + c)] * v[1][at((o * s.kh * s.kw + t) * s.in + c)];
    }
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (v.size() > 2) y[i] += v[2][i % at(s.out)];
    if (relu && y[i] < 0) y[i] = 0;
  }
  return y;
}

OpCase conv_case(const char* label, const Shape& x, const Shape& weight, Conv2dOptions options,
                 bool bias = true, Activation activation = Activation::none) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(x), sample(weight, 0.5, 2)};
  if (bias) c.inputs.push_back(sample({weight[0]}, 0.5, 3));
  c.run = [=](std::span<const Tensor> t) {
    return conv2d(t[0], t[1], bias ? t[2] : Tensor(), options, activation);
  };
  c.reference = [=](std::span<const std::vector<double>> v) {
    ConvShape s{.n = x[0],
                .h = x[1],
                .w = x[2],
                .in = x[3],
                .out = weight[0],
                .kh = weight[1],
                .kw = weight[2]};
    s.stride = options.stride, s.padding = options.padding;
    s.oh = (s.h + 2 * s.padding - s.kh) / s.stride + 1,
    s.ow = (s.w + 2 * s.padding - s.kw) / s.stride + 1;
    return reference(s, v, activation == Activation::relu);
  };
  c.tolerance = 1e-5;
  return c;
}

std::vector<OpMisuse> misuses() {
  const auto call = [](const Shape& x, const Shape& weight, Conv2dOptions options = {},
                       DType type = DType::f32) {
    return [=](Device& d) {
      conv2d(Tensor::zeros(x, DType::f32, d), Tensor::zeros(weight, type, d), {}, options);
    };
  };
  return {
      {"channels",
       call({1, 8, 8, 3}, {4, 3, 3, 2}),
       {"conv2d", "[1, 8, 8, 3]", "[4, 3, 3, 2]", "2 channels"}},
      {"input rank", call({8, 8, 3}, {4, 3, 3, 3}), {"conv2d", "input", "[8, 8, 3]"}},
      {"weight rank", call({1, 8, 8, 3}, {4, 3}), {"conv2d", "weight", "[4, 3]"}},
      {"kernel too large",
       call({1, 4, 4, 1}, {1, 5, 5, 1}),
       {"conv2d", "smaller than the kernel", "[1, 4, 4, 1]"}},
      {"stride", call({1, 4, 4, 1}, {1, 3, 3, 1}, {.stride = 0}), {"conv2d", "stride 0"}},
      {"padding", call({1, 4, 4, 1}, {1, 3, 3, 1}, {.padding = -1}), {"conv2d", "padding -1"}},
      {"empty weight", call({1, 4, 4, 1}, {0, 3, 3, 1}), {"conv2d", "weight", "[0, 3, 3, 1]"}},
      {"types", call({1, 4, 4, 1}, {1, 3, 3, 1}, {}, DType::f64), {"conv2d", "weight", "f64"}},
      {"bias",
       [](Device& d) {
         const auto zeros = [&d](const Shape& s) { return Tensor::zeros(s, DType::f32, d); };
         conv2d(zeros({1, 4, 4, 1}), zeros({2, 3, 3, 1}), zeros({3}));
       },
       {"conv2d", "bias", "[3]", "[2]"}},
  };
}

}  // namespace

void register_op_conv2d(Registry& registry) {
  OpEntry entry;
  entry.help = "convolution of NHWC images with weights [out, kh, kw, in]";
  entry.cases = [] {
    return std::vector<OpCase>{
        conv_case("normal", {2, 8, 8, 4}, {8, 3, 3, 4}, {.padding = 1}),
        conv_case("relu", {2, 8, 8, 4}, {8, 3, 3, 4}, {.padding = 1}, true, Activation::relu),
        conv_case("16 channels, stride 2", {1, 9, 9, 16}, {16, 3, 3, 16},
                  {.stride = 2, .padding = 1}),
        conv_case("odd, no bias", {3, 7, 5, 3}, {5, 2, 3, 3}, {.stride = 2}, false),
        conv_case("padding beyond the kernel", {1, 3, 3, 2}, {3, 2, 2, 2}, {.padding = 3}),
        conv_case("kernel of one", {2, 3, 3, 5}, {7, 1, 1, 5}, {}),
        conv_case("lenet's first", {2, 28, 28, 1}, {6, 5, 5, 1}, {.padding = 2}),
        conv_case("lenet's second", {2, 14, 14, 6}, {16, 5, 5, 6}, {}),
        conv_case("lenet's first, 17 images", {17, 9, 10, 1}, {6, 5, 5, 1}, {.padding = 2}),
        conv_case("lenet's second, 33 images", {33, 7, 8, 6}, {16, 5, 5, 6}, {}),
        conv_case("few channels out, 16 images", {16, 5, 4, 9}, {7, 3, 2, 9}, {.padding = 1},
                  false),
        conv_case("3 channels, 20 images", {20, 6, 11, 3}, {13, 1, 3, 3}, {}),
        conv_case("winograd's, 32 channels", {3, 16, 14, 32}, {16, 3, 3, 32}, {.padding = 1}),
        conv_case("winograd's, parts of tiles", {8, 9, 12, 16}, {48, 3, 3, 16}, {}, false),
        conv_case("winograd's, 2 rows of padding", {24, 4, 5, 16}, {32, 3, 3, 16}, {.padding = 2},
                  true, Activation::relu),
        conv_case("kernel of 17", {2, 5, 6, 3}, {1, 17, 17, 3}, {.padding = 8}),
        conv_case("one element", {1, 1, 1, 1}, {1, 1, 1, 1}, {}),
        conv_case("empty", {0, 8, 8, 3}, {4, 3, 3, 3}, {.padding = 1}),
    };
  };
  entry.misuses = misuses;
  registry.table<OpEntry>().add("conv2d", std::move(entry));
}

}  // namespace belfry
