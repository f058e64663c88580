// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"
#include "belfry/device/library_shapes.h"

// Convolution as plain loops: f64, shapes a library has no fast code for, and the reference that
// stands in for a library in simulated runs.
namespace belfry {

inline std::size_t conv_forward_rows(const ConvShape& s) {
  return static_cast<std::size_t>(s.n * s.oh * s.ow);
}

// Row (image, oy, ox) of y.
template <class T>
struct ConvForward {
  static constexpr const char* name =
      kernel_name<T>("plain_conv_forward_f32", "plain_conv_forward_f64");
  ConvShape s;
  const T *x, *weight, *bias;  // bias may be null
  T* y;
  BELFRY_HD T value(std::int64_t image, std::int64_t oy, std::int64_t ox, std::int64_t o) const {
    T sum = bias != nullptr ? bias[o] : T(0);
    for (std::int64_t ky = 0; ky < s.kh; ++ky) {
      const std::int64_t iy = oy * s.stride - s.padding + ky;
      if (iy < 0 || iy >= s.h) continue;
      for (std::int64_t kx = 0; kx < s.kw; ++kx) {
        const std::int64_t ix = ox * s.stride - s.padding + kx;
        if (ix < 0 || ix >= s.w) continue;
        const T* pixel = x + ((image * s.h + iy) * s.w + ix) * s.in;
        const T* tap = weight + ((o * s.kh + ky) * s.kw + kx) * s.in;
        for (std::int64_t c = 0; c < s.in; ++c) sum += pixel[c] * tap[c];
      }
    }
    return sum;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t ox = r % s.ow, oy = r / s.ow % s.oh, image = r / (s.ow * s.oh);
    T* out = y + r * s.out;
    const ConvForward f = *this;
    team.each(static_cast<std::size_t>(s.out), [=](std::size_t o) {
      out[o] = f.value(image, oy, ox, static_cast<std::int64_t>(o));
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, static_cast<std::size_t>(s.n * s.h * s.w * s.in) * sizeof(T));
    t.reads(weight, static_cast<std::size_t>(s.out * s.kh * s.kw * s.in) * sizeof(T));
    if (bias != nullptr) t.reads(bias, static_cast<std::size_t>(s.out) * sizeof(T));
    t.writes(y, rows * static_cast<std::size_t>(s.out) * sizeof(T));
  }
};

template <class Table>
void kernels_of_conv2d(Table& table) {
  table.template rows<ConvForward<float>>();
}

}  // namespace belfry
