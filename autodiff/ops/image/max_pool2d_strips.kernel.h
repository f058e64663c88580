// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "belfry/autodiff/ops/image/pool_window.kernel.h"
#include "belfry/core/host_device.h"

namespace belfry {

// The better of two window positions: the larger value, of equal ones the earlier; NaN wins.
template <class T>
BELFRY_HD inline bool beats(T v, std::int32_t at, T best, std::int32_t won) {
  return (v > best) | (v != v) | ((v == best) & (at < won));
}

// Max-pooling of windows side by side on the host, a row of outputs at a time, in vector code:
// first the rows of a strip of windows, then its columns.
template <class T>
struct MaxPoolStrips {
  static constexpr std::int64_t kBlock = 512;  // elements of a strip on the stack
  PoolShape s;
  const T* x;
  T* y;
  std::int32_t* winner;

  static bool fits(const PoolShape& s) {
    return s.padding == 0 && s.stride == s.kernel && s.kernel * s.c <= kBlock;
  }

  void operator()(std::int64_t r) const {
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
      columns(windows, best, won, (r * s.ow + ox) * s.c);
    }
  }

  // Every pixel of the strip beside those right of it, though only the first one of each window is
  // kept: pixels of 6 channels one by one are scalar code, which took 190 us more in a lenet step.
  void columns(std::int64_t windows, const T* best, const std::int32_t* won,
               std::int64_t to) const {
    const std::int64_t c = s.c, step = s.kernel * c, reach = windows * step - step + c;
    T top[kBlock];
    std::int32_t place[kBlock];
    std::memcpy(top, best, static_cast<std::size_t>(reach) * sizeof(T));
    std::memcpy(place, won, static_cast<std::size_t>(reach) * sizeof(std::int32_t));
    for (std::int64_t kx = c; kx < step; kx += c)
      for (std::int64_t i = 0; i < reach; ++i) {
        const T v = best[i + kx];
        const auto at = static_cast<std::int32_t>(won[i + kx] + kx);
        const bool better = beats(v, at, top[i], place[i]);
        top[i] = better ? v : top[i];
        place[i] = better ? at : place[i];
      }
    if (c == 6) return keep<6>(windows, top, place, to);
    keep<0>(windows, top, place, to);
  }

  // C, if not 0, is the number of channels: copies of known length are a move or two.
  template <std::int64_t C>
  void keep(std::int64_t windows, const T* top, const std::int32_t* place, std::int64_t to) const {
    const std::int64_t c = C > 0 ? C : s.c, step = s.kernel * c;
    for (std::int64_t i = 0; i < windows; ++i, to += c, top += step, place += step) {
      std::memcpy(y + to, top, static_cast<std::size_t>(c) * sizeof(T));
      std::memcpy(winner + to, place, static_cast<std::size_t>(c) * sizeof(std::int32_t));
    }
  }
};

}  // namespace belfry
