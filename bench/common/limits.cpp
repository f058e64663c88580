// SPDX-License-Identifier: MIT
#include "belfry/bench/common/limits.h"

#include <algorithm>

#include "belfry/autodiff/tensor.h"
#include "belfry/bench/common/timer.h"
#include "belfry/device/cpu/onednn_internal.h"

// The limit may use whatever the processor has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BELFRY_BENCH_WIDE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BELFRY_BENCH_WIDE
#endif

namespace belfry::bench {
namespace {

BELFRY_BENCH_WIDE void add_two(const float* a, const float* b, float* out, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) out[i] = (a[i] + b[i]) * 0.5f;
}

BELFRY_BENCH_WIDE void scale_one(const float* a, float* out, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) out[i] = a[i] * 0.5f;
}

BELFRY_BENCH_WIDE void momentum_one(const float* g, float* v, float* p, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = 0.9f * v[i] + g[i];
    p[i] -= 0.01f * v[i];
  }
}

BELFRY_BENCH_WIDE void momentum_two(const float* a, const float* b, float* v, float* p,
                                    std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = 0.9f * v[i] + (a[i] + b[i]) * 0.5f;
    p[i] -= 0.01f * v[i];
  }
}

// More than two sources are added in pairs, a cached block at a time: only first reads go to
// memory.
constexpr std::size_t kCached = 4096;

}  // namespace

double best_gemm(Context& context, int calls) {
  constexpr std::int64_t n = 512;
  const int towers = context.towers();
  std::vector<double> rates(static_cast<std::size_t>(towers), 0);
  context.host().run(towers, [&](int t) {
    Device& device = context.device(t);
    device.bind_thread();
    OneDnn& onednn = device.slot<OneDnn>();
    const std::vector<double> values(n * n, 0.5);
    const Tensor a = Tensor::from(values, {n, n}, DType::f32, device),
                 b = Tensor::from(values, {n, n}, DType::f32, device),
                 c = Tensor::empty({n, n}, DType::f32, device);
    const auto product = [&] {
      onednn.matmul({.m = n, .n = n, .k = n}, a.data<float>(), b.data<float>(), nullptr,
                    c.data<float>());
    };
    rates[static_cast<std::size_t>(t)] = 2.0 * n * n * n / median_seconds(calls, product);
  });
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

AveragingLimit::AveragingLimit(Context& context, std::size_t elements)
    : context_(context),
      elements_(elements),
      sources_(static_cast<std::size_t>(context.towers()), std::vector<float>(elements, 1e-3f)),
      mean_(elements),
      velocity_(elements),
      param_(elements) {}

template <class Body>
double AveragingLimit::timed(const Body& body) {
  const int towers = context_.towers();
  const Clock::time_point start = Clock::now();
  context_.host().run(towers, [&](int t) {
    const auto k = static_cast<std::size_t>(t), n = static_cast<std::size_t>(towers);
    body(elements_ * k / n, elements_ * (k + 1) / n);
  });
  return seconds_since(start);
}

double AveragingLimit::two_pass_seconds() {
  const auto sum = [this](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += kCached) {
      const std::size_t n = std::min(kCached, end - at);
      float* out = mean_.data() + at;
      if (sources_.size() == 1) scale_one(sources_[0].data() + at, out, n);
      for (std::size_t k = 1; k < sources_.size(); ++k)
        add_two(k == 1 ? sources_[0].data() + at : out, sources_[k].data() + at, out, n);
    }
  };
  const auto update = [this](std::size_t begin, std::size_t end) {
    momentum_one(mean_.data() + begin, velocity_.data() + begin, param_.data() + begin,
                 end - begin);
  };
  return timed(sum) + timed(update);
}

double AveragingLimit::one_pass_seconds() {
  return timed([this](std::size_t begin, std::size_t end) {
    std::vector<float> block(kCached);
    for (std::size_t at = begin; at < end; at += kCached) {
      const std::size_t n = std::min(kCached, end - at), last = sources_.size() - 1;
      const float* sum = sources_[0].data() + at;
      for (std::size_t k = 1; k < last; ++k, sum = block.data())
        add_two(sum, sources_[k].data() + at, block.data(), n);
      if (last == 0)
        momentum_one(sum, velocity_.data() + at, param_.data() + at, n);
      else
        momentum_two(sum, sources_[last].data() + at, velocity_.data() + at, param_.data() + at, n);
    }
  });
}

}  // namespace belfry::bench
