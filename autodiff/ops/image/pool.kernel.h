// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

struct Range {
  std::int64_t begin, end;
};

// The part of window `o` that lies inside an image side of `extent` pixels.
BELFRY_HD inline Range window_inside(const PoolShape& s, std::int64_t o, std::int64_t extent) {
  const std::int64_t first = o * s.stride - s.padding, last = first + s.kernel;
  return {first < 0 ? 0 : first, last > extent ? extent : last};
}

// The windows of `outputs` that contain pixel i of a side.
BELFRY_HD inline Range windows_of(const PoolShape& s, std::int64_t i, std::int64_t outputs) {
  const std::int64_t p = i + s.padding, past = p - s.kernel;
  const std::int64_t first = past < 0 ? 0 : past / s.stride + 1, last = p / s.stride + 1;
  return {first, last > outputs ? outputs : last};
}

inline std::size_t pool_inputs(const PoolShape& s) { return static_cast<std::size_t>(s.n * s.h * s.w * s.c); }
inline std::size_t pool_outputs(const PoolShape& s) { return static_cast<std::size_t>(s.n * s.oh * s.ow * s.c); }

// The better of two window positions: the larger value, of equal ones the earlier; NaN wins.
template <class T>
BELFRY_HD inline bool beats(T v, std::int32_t at, T best, std::int32_t won) {
  return (v > best) | (v != v) | ((v == best) & (at < won));
}

// Row (image, oy) of y and of the winners. A winner is an offset from its window's first pixel (which
// may lie in the padding) in elements of x: adding it to that pixel's index gives the element.
template <class T>
struct MaxPoolForward {
  static constexpr const char* name = kernel_name<T>("max_pool_forward_f32", "max_pool_forward_f64");
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

  // Windows side by side on the host: rows first, whole strips of them in vector code, then columns.
  // 64 x 28 x 28 x 6: 10 times faster than pixel by pixel.
  void strips(std::int64_t r) const {
    const std::int64_t k = s.kernel, line = s.w * s.c, step = k * s.c, most = kBlock / step;
    const T* first = x + (r / s.oh * s.h + r % s.oh * k) * line;
    for (std::int64_t ox = 0; ox < s.ow; ox += most) {
      const std::int64_t windows = s.ow - ox < most ? s.ow - ox : most, width = windows * step;
      T best[kBlock];
      std::int32_t won[kBlock];
      const T* in = first + ox * step;
      for (std::int64_t i = 0; i < width; ++i) best[i] = in[i], won[i] = 0;
      for (std::int64_t ky = 1; ky < k; ++ky)
        for (std::int64_t i = 0; i < width; ++i) {
          const T v = in[ky * line + i];
          const auto at = static_cast<std::int32_t>(ky * line);
          const bool better = beats(v, at, best[i], won[i]);
          best[i] = better ? v : best[i];
          won[i] = better ? at : won[i];
        }
      T* __restrict__ out = y + (r * s.ow + ox) * s.c;
      std::int32_t* __restrict__ place = winner + (r * s.ow + ox) * s.c;
      for (std::int64_t q = 0; q < windows; ++q, out += s.c, place += s.c) columns(best + q * step, won + q * step, out, place);
    }
  }
  void columns(const T* best, const std::int32_t* won, T* __restrict__ out, std::int32_t* __restrict__ place) const {
    for (std::int64_t c = 0; c < s.c; ++c) out[c] = best[c], place[c] = won[c];
    for (std::int64_t kx = 1; kx < s.kernel; ++kx)
      for (std::int64_t c = 0; c < s.c; ++c) {
        const T v = best[kx * s.c + c];
        const auto at = static_cast<std::int32_t>(won[kx * s.c + c] + kx * s.c);
        const bool better = beats(v, at, out[c], place[c]);
        out[c] = better ? v : out[c];
        place[c] = better ? at : place[c];
      }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(x, pool_inputs(s) * sizeof(T)).writes(y, pool_outputs(s) * sizeof(T));
    t.writes(winner, pool_outputs(s) * sizeof(std::int32_t));
  }
};

// Row (image, oy) of dy, where no two windows share a pixel: scatters into dx, which is 0.
template <class T>
struct MaxPoolScatter {
  static constexpr const char* name = kernel_name<T>("max_pool_scatter_f32", "max_pool_scatter_f64");
  PoolShape s;
  const T* dy;
  const std::int32_t* winner;
  T* dx;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t top = r % s.oh * s.stride - s.padding, image = r / s.oh;
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const T* g = dy + (r * s.ow + ox) * s.c;
      const std::int32_t* won = winner + (r * s.ow + ox) * s.c;
      const std::int64_t first = ((image * s.h + top) * s.w + ox * s.stride - s.padding) * s.c;
      T* out = dx;
      team.each(static_cast<std::size_t>(s.c), [=](std::size_t c) {
        out[first + won[c] + static_cast<std::int64_t>(c)] = g[c];
      });
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
            const std::int64_t q = ((image * f.s.oh + oy) * f.s.ow + ox) * f.s.c + static_cast<std::int64_t>(c);
            const std::int64_t down = iy - oy * f.s.stride + f.s.padding, right = ix - ox * f.s.stride + f.s.padding;
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

// Row (image, oy) of y.
template <class T>
struct AvgPoolForward {
  static constexpr const char* name = kernel_name<T>("avg_pool_forward_f32", "avg_pool_forward_f64");
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
  static constexpr const char* name = kernel_name<T>("avg_pool_backward_f32", "avg_pool_backward_f64");
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
            sum += f.dy[((image * f.s.oh + oy) * f.s.ow + ox) * f.s.c + static_cast<std::int64_t>(c)];
        out[c] = sum / area;
      });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(dy, pool_outputs(s) * sizeof(T)).writes(dx, pool_inputs(s) * sizeof(T));
  }
};

}  // namespace belfry
