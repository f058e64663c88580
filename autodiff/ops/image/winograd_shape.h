// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

inline constexpr int kWinogradTile = 4;     // outputs of a tile, each way
inline constexpr int kWinogradReach = 6;    // inputs of a tile, each way
inline constexpr int kWinogradPoints = 36;  // products a tile

// Where a tile's outputs begin.
struct WinogradPlace {
  std::int64_t image, y, x;
};

// y [n, oh, ow, out] = x [n, h, w, in] with `padding` zeros at the top and left. Tiles are numbered
// through all images.
struct WinogradShape {
  std::int64_t n, h, w, in, oh, ow, out, padding;
  std::int64_t rows() const { return (oh + kWinogradTile - 1) / kWinogradTile; }
  std::int64_t columns() const { return (ow + kWinogradTile - 1) / kWinogradTile; }
  std::int64_t tiles() const { return n * rows() * columns(); }
  WinogradPlace place(std::int64_t tile) const {
    return {tile / (rows() * columns()), tile / columns() % rows() * kWinogradTile,
            tile % columns() * kWinogradTile};
  }
};

// Floats between the points of `count` rows of channels: an odd number of cache lines, which keeps
// 36 points out of each other's cache sets.
inline std::int64_t winograd_plane(std::int64_t count, std::int64_t channels) {
  return ((count * channels + 31) / 32 * 2 + 1) * 16;
}

}  // namespace belfry
