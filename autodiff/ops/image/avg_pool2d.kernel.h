// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/pool_window.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row (image, oy) of y.
template <class T>
struct AvgPoolForward {
  static constexpr const char* name =
      kernel_name<T>("avg_pool_forward_f32", "avg_pool_forward_f64");
  PoolShape s;
  const T* x;
  T* y;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t oy = r % s.oh, image = r / s.oh;
    const Range ys = window_inside(s, oy, s.h);
    const T area = static_cast<T>(s.kernel * s.kernel);
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const Range xs = window_inside(s, ox, s.w);
      T* out = y + (r * s.ow + ox) * s.c;
      const AvgPoolForward f = *this;
      team.each(static_cast<std::size_t>(s.c), [=](std::size_t c) {
        T sum = T(0);
        for (std::int64_t iy = ys.begin; iy < ys.end; ++iy)
          for (std::int64_t ix = xs.begin; ix < xs.end; ++ix)
            sum += f.x[((image * f.s.h + iy) * f.s.w + ix) * f.s.c + static_cast<std::int64_t>(c)];
        out[c] = sum / area;
      });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(x, pool_inputs(s) * sizeof(T)).writes(y, pool_outputs(s) * sizeof(T));
  }
};

// Row (image, iy) of dx.
template <class T>
struct AvgPoolBackward {
  static constexpr const char* name =
      kernel_name<T>("avg_pool_backward_f32", "avg_pool_backward_f64");
  PoolShape s;
  const T* dy;
  T* dx;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t iy = r % s.h, image = r / s.h;
    const Range ys = windows_of(s, iy, s.oh);
    const T area = static_cast<T>(s.kernel * s.kernel);
    for (std::int64_t ix = 0; ix < s.w; ++ix) {
      const Range xs = windows_of(s, ix, s.ow);
      T* out = dx + (r * s.w + ix) * s.c;
      const AvgPoolBackward f = *this;
      team.each(static_cast<std::size_t>(s.c), [=](std::size_t c) {
        T sum = T(0);
        for (std::int64_t oy = ys.begin; oy < ys.end; ++oy)
          for (std::int64_t ox = xs.begin; ox < xs.end; ++ox)
            sum +=
                f.dy[((image * f.s.oh + oy) * f.s.ow + ox) * f.s.c + static_cast<std::int64_t>(c)];
        out[c] = sum / area;
      });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(dy, pool_outputs(s) * sizeof(T)).writes(dx, pool_inputs(s) * sizeof(T));
  }
};

template <class Table>
void kernels_of_avg_pool2d(Table& table) {
  table.template rows<AvgPoolForward<float>>();
  table.template rows<AvgPoolBackward<float>>();
}

}  // namespace belfry
