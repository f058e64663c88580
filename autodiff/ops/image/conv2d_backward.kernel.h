// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

inline std::size_t conv_backward_data_rows(const ConvShape& s) {
  return static_cast<std::size_t>(s.n * s.h * s.w);
}
inline std::size_t conv_backward_weights_rows(const ConvShape& s) {
  return static_cast<std::size_t>(s.out * s.kh * s.kw);
}

// Row (image, iy, ix) of dx: gathers from the outputs that saw this pixel.
template <class T>
struct ConvBackwardData {
  static constexpr const char* name =
      kernel_name<T>("plain_conv_backward_data_f32", "plain_conv_backward_data_f64");
  ConvShape s;
  const T *dy, *weight;
  T* dx;
  BELFRY_HD T value(std::int64_t image, std::int64_t iy, std::int64_t ix, std::int64_t c) const {
    T sum = T(0);
    for (std::int64_t ky = 0; ky < s.kh; ++ky) {
      const std::int64_t ty = iy + s.padding - ky, oy = ty / s.stride;
      if (ty < 0 || ty % s.stride != 0 || oy >= s.oh) continue;
      for (std::int64_t kx = 0; kx < s.kw; ++kx) {
        const std::int64_t tx = ix + s.padding - kx, ox = tx / s.stride;
        if (tx < 0 || tx % s.stride != 0 || ox >= s.ow) continue;
        const T* g = dy + ((image * s.oh + oy) * s.ow + ox) * s.out;
        for (std::int64_t o = 0; o < s.out; ++o)
          sum += g[o] * weight[((o * s.kh + ky) * s.kw + kx) * s.in + c];
      }
    }
    return sum;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t ix = r % s.w, iy = r / s.w % s.h, image = r / (s.w * s.h);
    T* out = dx + r * s.in;
    const ConvBackwardData f = *this;
    team.each(static_cast<std::size_t>(s.in), [=](std::size_t c) {
      out[c] = f.value(image, iy, ix, static_cast<std::int64_t>(c));
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(dy, static_cast<std::size_t>(s.n * s.oh * s.ow * s.out) * sizeof(T));
    t.reads(weight, static_cast<std::size_t>(s.out * s.kh * s.kw * s.in) * sizeof(T));
    t.writes(dx, rows * static_cast<std::size_t>(s.in) * sizeof(T));
  }
};

// Row (o, ky, kx) of dweight.
template <class T>
struct ConvBackwardWeights {
  static constexpr const char* name =
      kernel_name<T>("plain_conv_backward_weights_f32", "plain_conv_backward_weights_f64");
  ConvShape s;
  const T *x, *dy;
  T* dweight;
  BELFRY_HD T value(std::int64_t o, std::int64_t ky, std::int64_t kx, std::int64_t c) const {
    T sum = T(0);
    for (std::int64_t image = 0; image < s.n; ++image)
      for (std::int64_t oy = 0; oy < s.oh; ++oy) {
        const std::int64_t iy = oy * s.stride - s.padding + ky;
        if (iy < 0 || iy >= s.h) continue;
        for (std::int64_t ox = 0; ox < s.ow; ++ox) {
          const std::int64_t ix = ox * s.stride - s.padding + kx;
          if (ix < 0 || ix >= s.w) continue;
          sum += x[((image * s.h + iy) * s.w + ix) * s.in + c] *
                 dy[((image * s.oh + oy) * s.ow + ox) * s.out + o];
        }
      }
    return sum;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t kx = r % s.kw, ky = r / s.kw % s.kh, o = r / (s.kw * s.kh);
    T* out = dweight + r * s.in;
    const ConvBackwardWeights f = *this;
    team.each(static_cast<std::size_t>(s.in),
              [=](std::size_t c) { out[c] = f.value(o, ky, kx, static_cast<std::int64_t>(c)); });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, static_cast<std::size_t>(s.n * s.h * s.w * s.in) * sizeof(T));
    t.reads(dy, static_cast<std::size_t>(s.n * s.oh * s.ow * s.out) * sizeof(T));
    t.writes(dweight, rows * static_cast<std::size_t>(s.in) * sizeof(T));
  }
};

template <class Table>
void kernels_of_conv2d_backward(Table& table) {
  table.template rows<ConvBackwardData<float>>();
  table.template rows<ConvBackwardWeights<float>>();
}

}  // namespace belfry
