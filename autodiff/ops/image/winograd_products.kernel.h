// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/image/lane_tiles.h"
#include "belfry/autodiff/ops/image/winograd_shape.h"
#include "belfry/autodiff/ops/image/winograd_transforms.kernel.h"
#include "belfry/autodiff/ops/sequence/tile.kernel.h"

// What Winograd's convolution and the gradient of its taps share.
namespace belfry {

// The transformed inputs of one tile, `plane` floats from point to point; beyond the image lie 0.
inline void winograd_inputs(const WinogradShape& s, const float* x, std::int64_t tile, float* to,
                            std::int64_t plane) {
  constexpr int L = static_cast<int>(kVectorLanes<float>);
  const WinogradPlace place = s.place(tile);
  const std::int64_t y0 = place.y - s.padding, x0 = place.x - s.padding;
  const std::int64_t first = ((place.image * s.h + y0) * s.w + x0) * s.in;
  const bool inside =
      y0 >= 0 && x0 >= 0 && y0 + kWinogradReach <= s.h && x0 + kWinogradReach <= s.w;
  for (std::int64_t c = 0; c < s.in; c += L) {
    const auto store = [&](int i, int j, const VectorF& v) {
      store_vector(to + (i * kWinogradReach + j) * plane + c, v);
    };
    if (inside)
      winograd::transform<winograd::Inputs>(
          [&](int i, int j) { return load_vector(x + (first + (i * s.w + j) * s.in + c)); }, store);
    else
      winograd::transform<winograd::Inputs>(
          [&](int i, int j) {
            const bool there = y0 + i >= 0 && y0 + i < s.h && x0 + j >= 0 && x0 + j < s.w;
            return there ? load_vector(x + (first + (i * s.w + j) * s.in + c)) : VectorF{};
          },
          store);
  }
}

// c [rows, W vectors of columns] (+)= a b as tile() does, any number of rows.
template <bool kAdd, int R, int W>
inline void winograd_rows(std::int64_t rows, std::int64_t k, const float* a, std::int64_t a_row,
                          std::int64_t a_term, const float* b, std::int64_t b_row, float* c,
                          std::int64_t c_row) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t g = 0; g * R < rows; ++g) {
    const std::int64_t r = part_begin(rows, R, g);
    with_count<R>(part_begin(rows, R, g + 1) - r, [&](auto count) {
      tile<float, kAdd, std::size_t{count()}, std::size_t{W}>(
          at(k), a + r * a_row, at(a_row), at(a_term), b, at(b_row), c + r * c_row, at(c_row));
    });
  }
}

// c [rows, columns] (+)= a b; `columns` is a multiple of 16.
template <bool kAdd>
inline void winograd_product(std::int64_t rows, std::int64_t columns, std::int64_t k,
                             const float* a, std::int64_t a_row, std::int64_t a_term,
                             const float* b, float* c) {
  constexpr std::int64_t L = kVectorLanes<float>;
  constexpr int R = 6;  // as fast as more, with less to keep
  std::int64_t o = 0;
  for (; o + 2 * L <= columns; o += 2 * L)
    winograd_rows<kAdd, R, 2>(rows, k, a, a_row, a_term, b + o, columns, c + o, columns);
  for (; o < columns; o += L)
    winograd_rows<kAdd, R, 1>(rows, k, a, a_row, a_term, b + o, columns, c + o, columns);
}

}  // namespace belfry
