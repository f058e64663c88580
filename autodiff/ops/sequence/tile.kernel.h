// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/vector.kernel.h"

#if defined(__CUDACC__)  // which knows no such pragma, and makes no host code of this
#define BELFRY_UNROLL
#else
#define BELFRY_UNROLL _Pragma("GCC unroll 8")
#endif

namespace belfry {

// Rows of a product that are in registers at once, with two vectors of columns.
inline constexpr std::size_t kTileRows = kVectorBytes == 64 ? 8 : 4;

// c [kTileRows, 2 vectors] (+)= a b over k terms; a's element (m, k) lies at m a_row + k a_term, so
// that a transposed a costs nothing. b and c have rows of b_row and c_row elements.
template <class T, bool kAdd>
inline void tile(std::size_t k, const T* a, std::size_t a_row, std::size_t a_term, const T* b,
                 std::size_t b_row, T* c, std::size_t c_row) {
  constexpr std::size_t kLanes = kVectorLanes<T>;
  Vector<T> sum[kTileRows][2];
  BELFRY_UNROLL
  for (std::size_t m = 0; m < kTileRows; ++m) {
    sum[m][0] = kAdd ? load_vector(c + m * c_row) : Vector<T>{};
    sum[m][1] = kAdd ? load_vector(c + m * c_row + kLanes) : Vector<T>{};
  }
  for (; k > 0; --k, a += a_term, b += b_row) {
    const Vector<T> b0 = load_vector(b), b1 = load_vector(b + kLanes);
    BELFRY_UNROLL
    for (std::size_t m = 0; m < kTileRows; ++m) {
      const Vector<T> x = splat(a[m * a_row]);
      sum[m][0] = fused(x, b0, sum[m][0]);
      sum[m][1] = fused(x, b1, sum[m][1]);
    }
  }
  BELFRY_UNROLL
  for (std::size_t m = 0; m < kTileRows; ++m) {
    store_vector(c + m * c_row, sum[m][0]);
    store_vector(c + m * c_row + kLanes, sum[m][1]);
  }
}

}  // namespace belfry
