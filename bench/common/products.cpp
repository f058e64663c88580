// SPDX-License-Identifier: MIT
#include "belfry/bench/common/products.h"

#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/autodiff/ops/matrix/gemm_call.h"
#include "belfry/device/cpu/onednn_internal.h"

namespace belfry::bench {

Products::Products(const std::string& model, std::int64_t batch, Device& device) : device_(device) {
  if (model == "mlp") {
    linear(batch, 784, 256, true);
    linear(batch, 256, 128, false);
    linear(batch, 128, 10, false);
  } else if (model == "gpt") {
    gpt(batch);
  } else if (model == "resnet20") {
    resnet20(batch);
  } else {
    conv({batch, 28, 28, 1, 28, 28, 6, 5, 5, 1, 2, 1}, true);
    conv({batch, 14, 14, 6, 10, 10, 16, 5, 5, 1, 0, 1}, false);
    linear(batch, 400, 120, false);
    linear(batch, 120, 84, false);
    linear(batch, 84, 10, false);
  }
  // Backward runs the layers in reverse.
  for (auto call = backward_.rbegin(); call != backward_.rend(); ++call)
    calls_.push_back(std::move(*call));
  backward_.clear();
}

// 4 layers of width 128 on 128 positions, 256 tokens.
void Products::gpt(std::int64_t rows) {
  constexpr std::int64_t kLayers = 4, kWidth = 128, kLength = 128, kTokens = 256;
  const std::int64_t n = rows * kLength;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    linear(n, kWidth, 3 * kWidth, false);
    linear(n, kWidth, kWidth, false);
    linear(n, kWidth, 4 * kWidth, false);
    linear(n, 4 * kWidth, kWidth, false);
  }
  linear(n, kWidth, kTokens, false);
  // Two products forward and four backward of 2 length^2 width flops a row, of which half is seen.
  attention_ = 6.0 * static_cast<double>(kLayers * rows * kLength * kLength * kWidth);
}

// Of CIFAR: 3 stages of 3 blocks of two 3x3 convolutions, projections where the width changes.
void Products::resnet20(std::int64_t n) {
  const auto layer = [&](std::int64_t side, std::int64_t in, std::int64_t out, std::int64_t kernel,
                         std::int64_t stride, bool first = false) {
    const std::int64_t o = side / stride;
    conv({n, side, side, in, o, o, out, kernel, kernel, stride, kernel / 2, 0}, first);
  };
  layer(32, 3, 16, 3, 1, true);
  std::int64_t in = 16, side = 32;
  for (const std::int64_t out : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      const std::int64_t stride = in == out ? 1 : 2;
      layer(side, in, out, 3, stride);
      if (stride == 2) layer(side, in, out, 1, stride);
      side /= stride, in = out;
      layer(side, out, out, 3, 1);
    }
  linear(n, 64, 10, false);
}

void Products::run() {
  for (const auto& call : calls_) call();
}

float* Products::memory(std::int64_t elements) {
  // Values of ordinary size: the products of a trained net meet no denormals either.
  memory_.push_back(Tensor::from(std::vector<double>(static_cast<std::size_t>(elements), 0.03),
                                 Shape{elements}, DType::f32, device_));
  return memory_.back().data<float>();
}

template <class Call>
void Products::add(std::vector<std::function<void()>>& calls, Call call) {
  calls.emplace_back([this, call] { launch_rows(device_.main(), 1, call); });
}

void Products::linear(std::int64_t rows, std::int64_t in, std::int64_t out, bool first) {
  OneDnn* const host = device_.host_memory() ? &device_.slot<OneDnn>() : nullptr;
  float *x = memory(rows * in), *w = memory(out * in), *y = memory(rows * out);
  float *dy = memory(rows * out), *dx = memory(rows * in), *dw = memory(out * in);
  const float* bias = memory(out);
  add(calls_,
      GemmCall<float>{
          {.m = rows, .n = out, .k = in, .transpose_b = 1, .bias = 1}, x, w, bias, y, host});
  add(backward_,
      GemmCall<float>{{.m = out, .n = in, .k = rows, .transpose_a = 1}, dy, x, nullptr, dw, host});
  if (!first)
    add(backward_, GemmCall<float>{{.m = rows, .n = in, .k = out}, dy, w, nullptr, dx, host});
  flops_ += 2.0 * static_cast<double>(rows * in * out) * (first ? 2 : 3);
}

void Products::conv(ConvShape s, bool first) {
  OneDnn* const host = device_.host_memory() ? &device_.slot<OneDnn>() : nullptr;
  const std::int64_t taps = s.out * s.kh * s.kw * s.in;
  float *x = memory(s.n * s.h * s.w * s.in), *w = memory(taps);
  float *y = memory(s.n * s.oh * s.ow * s.out), *dy = memory(s.n * s.oh * s.ow * s.out);
  float *dx = memory(s.n * s.h * s.w * s.in), *dw = memory(taps);
  const float* bias = s.bias != 0 ? memory(s.out) : nullptr;
  add(calls_, ConvForwardCall{s, x, w, bias, y, host});
  add(backward_, ConvBackwardWeightsCall{s, x, dy, dw, host});
  if (!first) add(backward_, ConvBackwardDataCall{s, dy, w, dx, host});
  flops_ += 2.0 * static_cast<double>(s.n * s.oh * s.ow * taps) * (first ? 2 : 3);
}

}  // namespace belfry::bench
