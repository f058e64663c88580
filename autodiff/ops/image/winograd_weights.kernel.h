// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

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
    const std::int64_t columns = s.columns(), image = tile / (s.rows() * columns);
    const std::int64_t y0 = tile / columns % s.rows() * kWinogradTile,
                       x0 = tile % columns * kWinogradTile;
    const float* from = dy + ((image * s.oh + y0) * s.ow + x0) * s.out;
    const std::int64_t down = s.oh - y0, right = s.ow - x0;
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

// Row (point): sums [36 planes, out, in] += m^T v over the `tiles` of a chunk.
struct WinogradSums {
  static constexpr const char* name = "winograd_sums";
  const float *v, *m;
  float* sums;
  std::int64_t tiles, channels_in, channels_out, in, out;  // as in WinogradSlopes
  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const auto p = static_cast<std::int64_t>(row);
    winograd_product<true>(channels_out, channels_in, tiles, m + p * out, 1, channels_out,
                           v + p * in, sums + p * winograd_plane(channels_out, channels_in));
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
