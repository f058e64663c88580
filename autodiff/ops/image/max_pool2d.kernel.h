// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belfry/autodiff/ops/image/max_pool2d_strips.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row (image, oy) of y and of the winners. A winner is an offset from its window's first pixel
// (which may lie in the padding) in elements of x: adding it to that pixel's index gives the
// element.
template <class T>
struct MaxPoolForward {
  static constexpr const char* name =
      kernel_name<T>("max_pool_forward_f32", "max_pool_forward_f64");
  PoolShape s;
  const T* x;
  T* y;
  std::int32_t* winner;

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    if constexpr (std::is_same_v<Team, HostTeam>)
      if (MaxPoolStrips<T>::fits(s))
        return MaxPoolStrips<T>{s, x, y, winner}(static_cast<std::int64_t>(row));
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t oy = r % s.oh, image = r / s.oh, top = oy * s.stride - s.padding;
    const Range ys = window_inside(s, oy, s.h);
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const Range xs = window_inside(s, ox, s.w);
      const std::int64_t left = ox * s.stride - s.padding;
      const MaxPoolForward f = *this;
      team.each(static_cast<std::size_t>(s.c), [=](std::size_t channel) {
        const auto c = static_cast<std::int64_t>(channel);
        T best = f.x[((image * f.s.h + ys.begin) * f.s.w + xs.begin) * f.s.c + c];
        auto won = static_cast<std::int32_t>(((ys.begin - top) * f.s.w + xs.begin - left) * f.s.c);
        for (std::int64_t iy = ys.begin; iy < ys.end; ++iy)
          for (std::int64_t ix = xs.begin; ix < xs.end; ++ix) {
            const T v = f.x[((image * f.s.h + iy) * f.s.w + ix) * f.s.c + c];
            const auto at = static_cast<std::int32_t>(((iy - top) * f.s.w + ix - left) * f.s.c);
            const bool better = beats(v, at, best, won);
            best = better ? v : best;
            won = better ? at : won;
          }
        f.y[(r * f.s.ow + ox) * f.s.c + c] = best;
        f.winner[(r * f.s.ow + ox) * f.s.c + c] = won;
      });
    }
  }

  void touches(Touches& t, std::size_t) const {
    t.reads(x, pool_inputs(s) * sizeof(T)).writes(y, pool_outputs(s) * sizeof(T));
    t.writes(winner, pool_outputs(s) * sizeof(std::int32_t));
  }
};

template <class Table>
void kernels_of_max_pool2d(Table& table) {
  table.template rows<MaxPoolForward<float>>();
}

}  // namespace belfry
