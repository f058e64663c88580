// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/device/kernel.h"
#include "belfry/device/lanes.h"
#include "belfry/device/unroll.h"

namespace belfry {

// Floats a lane of one row of images: bounds what a kernel has on its stack.
inline constexpr std::int64_t kMostLaneRow = 1024;

// Images with as many of them side by side as a register has lanes: [blocks, h, margin + w +
// margin, step, lanes]. Pixels are `step` >= c registers apart: an odd number where that keeps
// columns out of each other's cache sets. Margins are 0.
struct LaneImage {
  float* data;
  std::int64_t h, w, c, margin, step;
  std::int64_t columns() const { return w + 2 * margin; }
  std::int64_t floats(std::int64_t lanes) const { return (h * columns() + 1) * step * lanes; }
  std::int64_t block() const { return floats(Lanes::count); }
};

// Row (block, y) of packed images from NHWC ones; images beyond the last are 0.
struct PackImages {
  static constexpr const char* name = "pack_images";
  const float* x;  // [n, h, w, c]
  LaneImage to;
  std::int64_t n;

  // `width` elements from `at` on of all images of a block, in registers.
  void columns(const float* first, std::int64_t images, std::int64_t at, std::int64_t width,
               float* out) const {
    constexpr int L = Lanes::count;
    Lanes r[L];
    const std::int64_t image = to.h * to.w * to.c;
    if (images == L && width == L) {
      BELFRY_UNROLL
      for (int k = 0; k < L; ++k) r[k] = Lanes::load(first + k * image + at);
    } else {
      for (int k = 0; k < L; ++k) {
        float part[L] = {};
        for (std::int64_t i = 0; k < images && i < width; ++i) part[i] = first[k * image + at + i];
        r[k] = Lanes::load(part);
      }
    }
    transpose(r);
    if (to.step == to.c && width == L) {
      BELFRY_UNROLL
      for (int i = 0; i < L; ++i) r[i].store(out + (at + i) * L);
    } else {
      std::int64_t pixel = at / to.c, channel = at % to.c;
      for (std::int64_t i = 0; i < width; ++i) {
        r[i].store(out + (pixel * to.step + channel) * L);
        if (++channel == to.c) channel = 0, ++pixel;
      }
    }
  }

  template <class Team>
  void operator()(Team&, std::size_t row) const {
    constexpr int L = Lanes::count;
    const std::int64_t r = static_cast<std::int64_t>(row), block = r / to.h, y = r % to.h;
    const std::int64_t width = to.w * to.c, side = to.margin * to.step * L;
    float* line = to.data + block * to.block() + y * to.columns() * to.step * L;
    float* past = line + (to.margin + to.w) * to.step * L;
    for (std::int64_t i = 0; i < side; ++i) line[i] = 0, past[i] = 0;
    const std::int64_t images = n - block * L < L ? n - block * L : L;
    const float* first = x + (block * L * to.h + y) * width;
    for (std::int64_t at = 0; at < width; at += L)
      columns(first, images, at, width - at < L ? width - at : L, line + side);
  }
};

// `width` registers -> a row of each of the first `images` images, `stride` apart.
inline void unpack_row(const float* packed, std::int64_t width, float* y, std::int64_t stride,
                       std::int64_t images) {
  constexpr int L = Lanes::count;
  for (std::int64_t at = 0; at < width; at += L) {
    const std::int64_t columns = width - at < L ? width - at : L;
    Lanes r[L];
    if (columns == L) {
      BELFRY_UNROLL
      for (int i = 0; i < L; ++i) r[i] = Lanes::load(packed + (at + i) * L);
    } else {
      for (int i = 0; i < L; ++i) r[i] = Lanes::load(packed + (i < columns ? at + i : at) * L);
    }
    transpose(r);
    if (columns == L && images == L) {
      BELFRY_UNROLL
      for (int k = 0; k < L; ++k) r[k].store(y + k * stride + at);
      continue;
    }
    for (std::int64_t k = 0; k < images; ++k) {
      float part[L];
      r[k].store(part);
      for (std::int64_t i = 0; i < columns; ++i) y[k * stride + at + i] = part[i];
    }
  }
}

template <class Table>
void host_kernels_of_lane_rows(Table& table) {
  table.template rows<PackImages>();
}

}  // namespace belfry
