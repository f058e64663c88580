// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/lane_rows.kernel.h"
#include "belfry/autodiff/ops/image/lane_tiles.h"
#include "belfry/device/kernel.h"
#include "belfry/device/lanes.h"

// Convolutions of few channels with stride 1, on the host: a register holds one element of as many
// images as it has lanes, so that 1, 3 or 6 channels fill it. docs/performance.md has the figures.
namespace belfry {

// Row (block, oy) of y = x * w (+ bias). x is packed, with `margin` columns at both sides; `top`
// rows above the image are 0, as are those below. w is [kh, kw, in, out].
struct LaneConv {
  static constexpr const char* name = "lane_conv";
  LaneImage x;
  const float *w, *bias;  // bias may be null
  float* y;               // [n, oh, ow, out]
  std::int64_t n, oh, ow, out, kh, kw, top;

  template <int P, int T>
  void tile(const float* image, std::int64_t oy, std::int64_t ox, std::int64_t o,
            float* row) const {
    Lanes sum[std::size_t{P}][std::size_t{T}];
    for (int t = 0; t < T; ++t)
      for (int p = 0; p < P; ++p) sum[p][t] = Lanes::all(bias != nullptr ? bias[o + t] : 0.f);
    const std::int64_t first = top - oy > 0 ? top - oy : 0;
    const std::int64_t past = x.h + top - oy < kh ? x.h + top - oy : kh;
    // Columns of w that meet the image for none of the pixels are left out.
    const std::int64_t left = x.margin - ox - P + 1 > 0 ? x.margin - ox - P + 1 : 0;
    const std::int64_t right = x.margin + x.w - ox < kw ? x.margin + x.w - ox : kw;
    const std::int64_t step = x.step * Lanes::count;
    for (std::int64_t ky = first; ky < past; ++ky)
      for (std::int64_t kx = left; kx < right; ++kx) {
        const float* in = image + ((oy + ky - top) * x.columns() + ox + kx) * step;
        const float* tap = w + (ky * kw + kx) * x.c * out + o;
        for (std::int64_t c = 0; c < x.c; ++c, in += Lanes::count, tap += out) {
          Lanes pixel[std::size_t{P}];
          for (int p = 0; p < P; ++p) pixel[p] = Lanes::load(in + p * step);
          for (int t = 0; t < T; ++t) {
            const Lanes weight = Lanes::all(tap[t]);
            for (int p = 0; p < P; ++p) sum[p][t].add_product(pixel[p], weight);
          }
        }
      }
    for (int p = 0; p < P; ++p)
      for (int t = 0; t < T; ++t) sum[p][t].store(row + ((ox + p) * out + o + t) * Lanes::count);
  }

  template <class Team>
  void operator()(Team&, std::size_t r) const {
    const std::int64_t block = static_cast<std::int64_t>(r) / oh,
                       oy = static_cast<std::int64_t>(r) % oh;
    alignas(64) float row[kMostLaneRow * Lanes::count];
    const float* image = x.data + block * x.block();
    const std::int64_t tiles = (ow + kPixels - 1) / kPixels,
                       groups = (out + kChannels - 1) / kChannels;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t o = part_begin(out, kChannels, g);
      with_count<kChannels>(part_begin(out, kChannels, g + 1) - o, [&](auto channels) {
        for (std::int64_t k = 0; k < tiles; ++k) {
          const std::int64_t ox = part_begin(ow, kPixels, k);
          with_count<kPixels>(part_begin(ow, kPixels, k + 1) - ox, [&](auto pixels) {
            tile<pixels(), channels()>(image, oy, ox, o, row);
          });
        }
      });
    }
    const std::int64_t first = block * Lanes::count;
    unpack_row(row, ow * out, y + (first * oh + oy) * ow * out, oh * ow * out,
               n - first < Lanes::count ? n - first : Lanes::count);
  }
};

template <class Table>
void host_kernels_of_conv2d_lanes(Table& table) {
  table.template rows<LaneConv>();
}

}  // namespace belfry
