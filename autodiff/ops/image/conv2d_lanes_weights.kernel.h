// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/lane_rows.kernel.h"
#include "belfry/autodiff/ops/image/lane_tiles.h"
#include "belfry/device/kernel.h"
#include "belfry/device/lanes.h"

namespace belfry {

// Row (block) of `sums`: for the images of a block and all pixels, products of dy and x, one
// register a weight, as [kh, kw x in, out]. The taps of a line, kw x in, lie side by side in x.
// Some rows of dy at a time go through all taps: from L1.
struct LaneConvWeights {
  static constexpr const char* name = "lane_conv_weights";
  LaneImage x, dy;
  float* sums;
  std::int64_t kh, kw, top;
  std::int64_t taps() const { return kw * x.c; }

  template <int J, int O>
  void tile(const float* image, const float* slopes, std::int64_t first, std::int64_t past,
            std::int64_t shift, float* to) const {
    Lanes sum[std::size_t{J}][std::size_t{O}];
    for (int i = 0; i < J; ++i)
      for (int k = 0; k < O; ++k) sum[i][k] = Lanes::load(to + (i * dy.c + k) * Lanes::count);
    const std::int64_t x_step = x.step * Lanes::count, dy_step = dy.step * Lanes::count;
    for (std::int64_t oy = first; oy < past; ++oy) {
      const float* in = image + (oy + shift) * x.columns() * x_step;
      const float* g = slopes + oy * dy.columns() * dy_step;
      for (std::int64_t ox = 0; ox < dy.w; ++ox, in += x_step, g += dy_step) {
        Lanes slope[std::size_t{O}];
        for (int k = 0; k < O; ++k) slope[k] = Lanes::load(g + k * Lanes::count);
        for (int i = 0; i < J; ++i) {
          const Lanes value = Lanes::load(in + i * Lanes::count);
          for (int k = 0; k < O; ++k) sum[i][k].add_product(value, slope[k]);
        }
      }
    }
    for (int i = 0; i < J; ++i)
      for (int k = 0; k < O; ++k) sum[i][k].store(to + (i * dy.c + k) * Lanes::count);
  }

  // All taps of line ky, from the rows [first, past) of dy that meet the image there.
  void line(std::int64_t block, std::int64_t ky, std::int64_t first, std::int64_t past) const {
    const std::int64_t shift = ky - top;
    if (first < -shift) first = -shift;
    if (past > x.h - shift) past = x.h - shift;
    for (std::int64_t q = 0; q * kOutputs < dy.c; ++q) {
      const std::int64_t o = part_begin(dy.c, kOutputs, q);
      with_count<kOutputs>(part_begin(dy.c, kOutputs, q + 1) - o, [&](auto outputs) {
        for (std::int64_t k = 0; k * kTaps < taps(); ++k) {
          const std::int64_t j = part_begin(taps(), kTaps, k);
          with_count<kTaps>(part_begin(taps(), kTaps, k + 1) - j, [&](auto width) {
            tile<width(), outputs()>(
                x.data + block * x.block() + j * Lanes::count,
                dy.data + block * dy.block() + o * Lanes::count, first, past, shift,
                sums + (((block * kh + ky) * taps() + j) * dy.c + o) * Lanes::count);
          });
        }
      });
    }
  }

  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const auto block = static_cast<std::int64_t>(row);
    const std::int64_t size = kh * taps() * dy.c * Lanes::count;
    for (std::int64_t i = 0; i < size; ++i) sums[block * size + i] = 0;
    const std::int64_t floats = dy.columns() * dy.step * Lanes::count,
                       strip = floats < 4096 ? 4096 / floats : 1;
    for (std::int64_t oy = 0; oy < dy.h; oy += strip)
      for (std::int64_t ky = 0; ky < kh; ++ky)
        line(block, ky, oy, oy + strip < dy.h ? oy + strip : dy.h);
  }
};

// Row o of dweight [out, taps]: the lanes of all blocks' registers added up.
struct AddLanes {
  static constexpr const char* name = "add_lanes";
  const float* sums;  // [blocks, taps, out]
  std::int64_t blocks, taps, out;
  float* dweight;
  template <class Team>
  void operator()(Team&, std::size_t row) const {
    const auto o = static_cast<std::int64_t>(row);
    for (std::int64_t k = 0; k < taps; ++k) {
      float total = 0;
      for (std::int64_t b = 0; b < blocks; ++b)
        total += sum_of(Lanes::load(sums + ((b * taps + k) * out + o) * Lanes::count));
      dweight[o * taps + k] = total;
    }
  }
};

template <class Table>
void host_kernels_of_conv2d_lanes_weights(Table& table) {
  table.template rows<LaneConvWeights>();
  table.template rows<AddLanes>();
}

}  // namespace belfry
