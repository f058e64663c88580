// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/ops/image/winograd_shape.h"

namespace belfry {

// The lines of an array of images that later tiles cover, asked for a part at a time while the
// processor multiplies: transforms read memory faster than it comes otherwise.
struct WinogradAhead {
  static constexpr std::int64_t kLine = 64, kMost = 256 << 10;  // a share of L2
  const char* first = nullptr;
  std::int64_t lines = 0;

  // Of tiles [tile, tile + count) of s: rows of `row` floats, `height` an image; a tile's begin
  // `above` rows above its outputs and are `reach`.
  WinogradAhead(const WinogradShape& s, std::int64_t tile, std::int64_t count, const float* data,
                std::int64_t height, std::int64_t row, std::int64_t above, std::int64_t reach) {
    const std::int64_t end = tile + count < s.tiles() ? tile + count : s.tiles();
    if (tile >= end) return;
    const auto image_row = [&](std::int64_t t, std::int64_t offset) {
      const WinogradPlace at = s.place(t);
      const std::int64_t y = at.y - above + offset;
      return at.image * height + (y < 0 ? 0 : (y > height ? height : y));
    };
    const std::int64_t begin = image_row(tile, 0) * row, past = image_row(end - 1, reach) * row;
    first = reinterpret_cast<const char*>(data + begin);
    lines = (past - begin) * static_cast<std::int64_t>(sizeof(float)) / kLine;
    if (lines * kLine > kMost) lines = 0;
  }
  // Part p of kWinogradPoints, to be read or (kWrite) written.
  template <bool kWrite>
  void ask(std::int64_t p) const {
    for (std::int64_t i = lines * p / kWinogradPoints; i < lines * (p + 1) / kWinogradPoints; ++i)
      __builtin_prefetch(first + i * kLine, kWrite ? 1 : 0, 2);
  }
};

}  // namespace belfry
