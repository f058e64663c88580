// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belfry/autodiff/ops/image/pool_window.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// The better of two window positions: the larger value, of equal ones the earlier; NaN wins.
template <class T>
BELFRY_HD inline bool beats(T v, std::int32_t at, T best, std::int32_t won) {
  return (v > best) | (v != v) | ((v == best) & (at < won));
}

// Row (image, oy) of y and of the winners. A winner is an offset from its window's first pixel
// (which may lie in the padding) in elements of x: adding it to that pixel's index gives the
// element.
template <class T>
struct MaxPoolForward {
  static constexpr const char* name =
      kernel_name<T>("max_pool_forward_f32", "max_pool_forward_f64");
  static constexpr std::int64_t kBlock = 512;  // elements of a strip on the stack
  PoolShape s;
  const T* x;
  T* y;
  std::int32_t* winner;

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    if constexpr (std::is_same_v<Team, HostTeam>)
      if (s.padding == 0 && s.stride == s.kernel && s.kernel * s.c <= kBlock)
        return strips(static_cast<std::int64_t>(row));
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

  // Windows side by side on the host: rows first, whole strips in vector code, then columns.
  void strips(std::int64_t r) const {
    const std::int64_t k = s.kernel, line = s.w * s.c, step = k * s.c, most = kBlock / step;
    const T* first = x + (r / s.oh * s.h + r % s.oh * k) * line;
    for (std::int64_t ox = 0; ox < s.ow; ox += most) {
      const std::int64_t windows = s.ow - ox < most ? s.ow - ox : most, width = windows * step;
      T best[kBlock];
      std::int32_t won[kBlock];
      const T* in = first + ox * step;
      const T* second = in + (k > 1 ? line : 0);
      for (std::int64_t i = 0; i < width; ++i) {  // of equal values the upper one stays
        const T u = in[i], v = second[i];
        const bool better = (v > u) | (v != v);
        best[i] = better ? v : u;
        won[i] = better ? static_cast<std::int32_t>(second - in) : 0;
      }
      for (std::int64_t ky = 2; ky < k; ++ky)
        for (std::int64_t i = 0; i < width; ++i) {
          const T v = in[ky * line + i];
          const bool better = (v > best[i]) | (v != v);
          best[i] = better ? v : best[i];
          won[i] = better ? static_cast<std::int32_t>(ky * line) : won[i];
        }
      T* __restrict__ out = y + (r * s.ow + ox) * s.c;
      std::int32_t* __restrict__ place = winner + (r * s.ow + ox) * s.c;
      s.c == 6 ? pixels<6>(windows, best, won, out, place)
               : pixels<0>(windows, best, won, out, place);
    }
  }
  // C, if not 0, is the number of channels: short loops of known length are vector code, too.
  template <std::int64_t C>
  void pixels(std::int64_t windows, const T* best, const std::int32_t* won, T* __restrict__ out,
              std::int32_t* __restrict__ place) const {
    const std::int64_t channels = C > 0 ? C : s.c, step = s.kernel * channels;
    for (; windows > 0; --windows, best += step, won += step, out += channels, place += channels) {
      for (std::int64_t c = 0; c < channels; ++c) out[c] = best[c], place[c] = won[c];
      for (std::int64_t kx = 1; kx < s.kernel; ++kx)
        for (std::int64_t c = 0; c < channels; ++c) {
          const T v = best[kx * channels + c];
          const auto at = static_cast<std::int32_t>(won[kx * channels + c] + kx * channels);
          const bool better = beats(v, at, out[c], place[c]);
          out[c] = better ? v : out[c];
          place[c] = better ? at : place[c];
        }
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
