// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/winograd_ahead.kernel.h"
#include "belfry/autodiff/ops/image/winograd_products.kernel.h"
#include "belfry/device/host_scratch.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row (group of `group` tiles) of y = x * w (+ bias) from transformed taps u [36 planes, in, out].
// What a group needs stays in its core's caches. in and out are multiples of 16.
struct WinogradConv {
  static constexpr const char* name = "winograd_conv";
  WinogradShape s;
  const float *x, *u, *bias;  // bias may be null
  float* y;
  std::int64_t group;

  void outputs(std::int64_t tile, const float* from, std::int64_t plane) const {
    constexpr int L = static_cast<int>(kVectorLanes<float>);
    const WinogradPlace at = s.place(tile);
    float* first = y + ((at.image * s.oh + at.y) * s.ow + at.x) * s.out;
    const std::int64_t down = s.oh - at.y, right = s.ow - at.x;
    for (std::int64_t o = 0; o < s.out; o += L) {
      const VectorF start = bias != nullptr ? load_vector(bias + o) : VectorF{};
      winograd::transform<winograd::Outputs>(
          [&](int i, int j) { return load_vector(from + (i * kWinogradReach + j) * plane + o); },
          [&](int i, int j, const VectorF& v) {
            if (i < down && j < right) store_vector(first + (i * s.ow + j) * s.out + o, v + start);
          });
    }
  }

  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const std::int64_t first = static_cast<std::int64_t>(row) * group;
    const std::int64_t count = s.tiles() - first < group ? s.tiles() - first : group;
    const std::int64_t in = winograd_plane(group, s.in), out = winograd_plane(group, s.out),
                       taps = winograd_plane(s.in, s.out);
    auto* v = static_cast<float*>(
        host_scratch(static_cast<std::size_t>(kWinogradPoints * (in + out)) * sizeof(float)));
    float* m = v + kWinogradPoints * in;
    for (std::int64_t t = 0; t < count; ++t) winograd_inputs(s, x, first + t, v + t * s.in, in);
    const WinogradAhead next_x(s, first + group, group, x, s.h, s.w * s.in, s.padding,
                               kWinogradReach);
    const WinogradAhead own_y(s, first, count, y, s.oh, s.ow * s.out, 0, kWinogradTile);
    for (std::int64_t p = 0; p < kWinogradPoints; ++p) {
      next_x.ask<false>(p);
      own_y.ask<true>(p);
      winograd_product<false>(count, s.out, s.in, v + p * in, s.in, 1, u + p * taps, m + p * out);
    }
    for (std::int64_t t = 0; t < count; ++t) outputs(first + t, m + t * s.out, out);
  }
};

// Row (16 of `to` channels) of the planes u [36, from, to] for winograd products of taps
// w [3, 3, from, to], whose rows are `row` floats apart; `reverse` takes the taps in reverse order.
struct WinogradTaps {
  static constexpr const char* name = "winograd_taps";
  const float* w;
  float* u;
  std::int64_t from, to, tap, row;  // floats between taps and between rows of w
  bool reverse;
  template <class Team>
  void operator()(Team&, std::size_t r) const {
    const std::int64_t plane = winograd_plane(from, to), o = static_cast<std::int64_t>(r) * 16;
    for (std::int64_t c = 0; c < from; ++c)
      for (std::int64_t k = o; k < o + 16; k += static_cast<std::int64_t>(kVectorLanes<float>))
        winograd::transform<winograd::Taps>(
            [&](int i, int j) {
              const int t = reverse ? 8 - (i * 3 + j) : i * 3 + j;
              return load_vector(w + t * tap + c * row + k);
            },
            [&](int i, int j, const VectorF& v) {
              store_vector(u + (i * kWinogradReach + j) * plane + c * to + k, v);
            });
  }
};

template <class Table>
void host_kernels_of_winograd_conv(Table& table) {
  table.template rows<WinogradConv>();
  table.template rows<WinogradTaps>();
}

}  // namespace belfry
