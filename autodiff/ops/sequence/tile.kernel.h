// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/vector.kernel.h"
#include "belfry/device/unroll.h"

namespace belfry {

// Rows of a product that are in registers at once, with two vectors of columns.
inline constexpr std::size_t kTileRows = kVectorBytes == 64 ? 8 : 4;

// c [R, W vectors] (+)= a b over k terms; a's element (m, k) lies at m a_row + k a_term, so that a
// transposed a costs nothing. b and c have rows of b_row and c_row elements.
template <class T, bool kAdd, std::size_t R = kTileRows, std::size_t W = 2>
inline void tile(std::size_t k, const T* a, std::size_t a_row, std::size_t a_term, const T* b,
                 std::size_t b_row, T* c, std::size_t c_row) {
  constexpr std::size_t kLanes = kVectorLanes<T>;
  Vector<T> sum[R][W];
  BELFRY_UNROLL
  for (std::size_t m = 0; m < R; ++m)
    for (std::size_t w = 0; w < W; ++w)
      sum[m][w] = kAdd ? load_vector(c + m * c_row + w * kLanes) : Vector<T>{};
  for (; k > 0; --k, a += a_term, b += b_row) {
    Vector<T> columns[W];
    for (std::size_t w = 0; w < W; ++w) columns[w] = load_vector(b + w * kLanes);
    BELFRY_UNROLL
    for (std::size_t m = 0; m < R; ++m) {
      const Vector<T> x = splat(a[m * a_row]);
      for (std::size_t w = 0; w < W; ++w) sum[m][w] = fused(x, columns[w], sum[m][w]);
    }
  }
  BELFRY_UNROLL
  for (std::size_t m = 0; m < R; ++m)
    for (std::size_t w = 0; w < W; ++w) store_vector(c + m * c_row + w * kLanes, sum[m][w]);
}

}  // namespace belfry
