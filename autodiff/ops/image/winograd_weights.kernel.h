// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/winograd_ahead.kernel.h"
#include "belfry/autodiff/ops/image/winograd_products.kernel.h"

// The gradient of Winograd's taps: the adjoint of each of its transforms, in turn.
namespace belfry {

// Row (tile of a chunk that begins at tile `first`): its inputs to v [36 planes, chunk, in], the
// slopes of its outputs to m [36 planes, chunk, out].
struct WinogradSlopes {
  static constexpr const char* name = "winograd_slopes";
  WinogradShape s;
  const float *x, *dy;
  float *v, *m;
  std::int64_t first, in, out;  // in, out: floats between planes

  template <class Team>
  void operator()(Team&, std::size_t row) const {
    constexpr int L = static_cast<int>(kVectorLanes<float>);
    const auto r = static_cast<std::int64_t>(row);
    const std::int64_t tile = first + r;
    winograd_inputs(s, x, tile, v + r * s.in, in);
    const WinogradPlace at = s.place(tile);
    const float* from = dy + ((at.image * s.oh + at.y) * s.ow + at.x) * s.out;
    const std::int64_t down = s.oh - at.y, right = s.ow - at.x;
    for (std::int64_t o = 0; o < s.out; o += L)
      winograd::transform<winograd::Slopes>(
          [&](int i, int j) {
            return i < down && j < right ? load_vector(from + (i * s.ow + j) * s.out + o)
                                         : VectorF{};
          },
          [&](int i, int j, const VectorF& value) {
            store_vector(m + (i * kWinogradReach + j) * out + r * s.out + o, value);
          });
  }
};

// Row (point): sums [36 planes, out, in] += m^T v over the `tiles` of a chunk. Asks for the next
// chunk's part of x and dy.
struct WinogradSums {
  static constexpr const char* name = "winograd_sums";
  WinogradSlopes chunk;
  float* sums;
  std::int64_t tiles;
  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const auto p = static_cast<std::int64_t>(row);
    const WinogradShape& s = chunk.s;
    const std::int64_t next = chunk.first + tiles;
    WinogradAhead(s, next, tiles, chunk.x, s.h, s.w * s.in, s.padding, kWinogradReach)
        .ask<false>(p);
    WinogradAhead(s, next, tiles, chunk.dy, s.oh, s.ow * s.out, 0, kWinogradTile).ask<false>(p);
    winograd_product<true>(s.out, s.in, tiles, chunk.m + p * chunk.out, 1, s.out,
                           chunk.v + p * chunk.in, sums + p * winograd_plane(s.out, s.in));
  }
};

// Row o of dweight [out, 3, 3, in] from the sums.
struct WinogradTapSlopes {
  static constexpr const char* name = "winograd_tap_slopes";
  const float* sums;
  float* dweight;
  std::int64_t in, out;
  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const auto o = static_cast<std::int64_t>(row);
    const std::int64_t plane = winograd_plane(out, in);
    for (std::int64_t c = 0; c < in; c += static_cast<std::int64_t>(kVectorLanes<float>))
      winograd::transform<winograd::TapSlopes>(
          [&](int i, int j) {
            return load_vector(sums + (i * kWinogradReach + j) * plane + o * in + c);
          },
          [&](int i, int j, const VectorF& g) {
            store_vector(dweight + (o * 9 + i * 3 + j) * in + c, g);
          });
  }
};

template <class Table>
void host_kernels_of_winograd_weights(Table& table) {
  table.template rows<WinogradSlopes>();
  table.template rows<WinogradSums>();
  table.template rows<WinogradTapSlopes>();
}

}  // namespace belfry
