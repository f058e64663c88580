// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/image/conv2d.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_backward.kernel.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/host_kernels.h"
#include "belfry/tests/catch.h"

// What tests of convolutions by kernels of our own share: plain loops, and the bits of two threads.
namespace belfry::convolutions {

using Floats = std::vector<float>;

inline Floats random(std::int64_t n, std::uint64_t seed) {
  const std::vector<double> v = sample_values(n, 1.0, seed);
  return {v.begin(), v.end()};
}

template <class F>
Floats plain(std::size_t size, std::size_t rows, F f, float* F::*result) {
  Floats out(size);
  f.*result = out.data();
  host_rows<F>(&f, 0, rows);
  return out;
}

inline ConvShape shape(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t in,
                       std::int64_t out, std::int64_t kh, std::int64_t kw, std::int64_t padding) {
  ConvShape s{.n = n, .h = h, .w = w, .in = in};
  s.out = out, s.kh = kh, s.kw = kw, s.padding = padding, s.bias = 1;
  s.oh = h + 2 * padding - kh + 1, s.ow = w + 2 * padding - kw + 1;
  return s;
}

inline void check_close(const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  float worst = 0, scale = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    scale = std::max(scale, std::fabs(expected[i]));
    const float error = std::fabs(got[i] - expected[i]);
    if (!(error <= worst)) worst = error;
  }
  CHECK(worst <= 1e-5f * scale);
}

// Runs `call` with one and with two threads, the result poisoned before, and compares the bits.
template <class F>
Floats on_threads(std::size_t size, const F& call) {
  Floats one(size, NAN), two(size, NAN);
  make_cpu_device(0, 1, Executor::in_place)->bind_thread();
  REQUIRE(call(one.data()));
  make_cpu_device(0, 2, Executor::in_place)->bind_thread();
  REQUIRE(call(two.data()));
  make_cpu_device(0, 1, Executor::in_place)->bind_thread();
  CHECK(one == two);
  return one;
}

}  // namespace belfry::convolutions
