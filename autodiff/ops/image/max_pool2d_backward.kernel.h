// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/pool_window.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row (image, oy) of dy, where no two windows share a pixel: scatters into dx, after setting to 0
// the lines of dx from this row of windows to the next.
template <class T>
struct MaxPoolScatter {
  static constexpr const char* name =
      kernel_name<T>("max_pool_scatter_f32", "max_pool_scatter_f64");
  PoolShape s;
  const T* dy;
  const std::int32_t* winner;
  T* dx;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t oy = r % s.oh, top = oy * s.stride - s.padding, image = r / s.oh;
    const std::int64_t begin = oy == 0 ? 0 : top, end = oy == s.oh - 1 ? s.h : top + s.stride;
    T* lines = dx + (image * s.h + begin) * s.w * s.c;
    team.each(static_cast<std::size_t>((end - begin) * s.w * s.c),
              [=](std::size_t i) { lines[i] = T(0); });
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const T* g = dy + (r * s.ow + ox) * s.c;
      const std::int32_t* won = winner + (r * s.ow + ox) * s.c;
      const std::int64_t first = ((image * s.h + top) * s.w + ox * s.stride - s.padding) * s.c;
      T* out = dx;
      team.each(static_cast<std::size_t>(s.c),
                [=](std::size_t c) { out[first + won[c] + static_cast<std::int64_t>(c)] = g[c]; });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(dy, pool_outputs(s) * sizeof(T)).reads(winner, pool_outputs(s) * sizeof(std::int32_t));
    t.writes(dx, pool_inputs(s) * sizeof(T));
  }
};

// Row (image, iy) of dx, for windows that overlap: gathers from those that this pixel won.
template <class T>
struct MaxPoolGather {
  static constexpr const char* name = kernel_name<T>("max_pool_gather_f32", "max_pool_gather_f64");
  PoolShape s;
  const T* dy;
  const std::int32_t* winner;
  T* dx;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t iy = r % s.h, image = r / s.h;
    const Range ys = windows_of(s, iy, s.oh);
    for (std::int64_t ix = 0; ix < s.w; ++ix) {
      const Range xs = windows_of(s, ix, s.ow);
      T* out = dx + (r * s.w + ix) * s.c;
      const MaxPoolGather f = *this;
      team.each(static_cast<std::size_t>(s.c), [=](std::size_t c) {
        T sum = T(0);
        for (std::int64_t oy = ys.begin; oy < ys.end; ++oy)
          for (std::int64_t ox = xs.begin; ox < xs.end; ++ox) {
            const std::int64_t q =
                ((image * f.s.oh + oy) * f.s.ow + ox) * f.s.c + static_cast<std::int64_t>(c);
            const std::int64_t down = iy - oy * f.s.stride + f.s.padding,
                               right = ix - ox * f.s.stride + f.s.padding;
            sum += f.winner[q] == (down * f.s.w + right) * f.s.c ? f.dy[q] : T(0);
          }
        out[c] = sum;
      });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(dy, pool_outputs(s) * sizeof(T)).reads(winner, pool_outputs(s) * sizeof(std::int32_t));
    t.writes(dx, pool_inputs(s) * sizeof(T));
  }
};

template <class Table>
void kernels_of_max_pool2d_backward(Table& table) {
  table.template rows<MaxPoolScatter<float>>();
  table.template rows<MaxPoolGather<float>>();
}

}  // namespace belfry
