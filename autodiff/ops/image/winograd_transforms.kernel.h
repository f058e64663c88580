// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/vector.kernel.h"
#include "belfry/device/unroll.h"

// Winograd's convolutions F(4x4, 3x3): 4 x 4 outputs of 3 x 3 taps are products, point by point, of
// tiles of 6 x 6 inputs and of taps that are both transformed: 36 multiplications instead of 144
// (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016). The points are 0,
// +-3/4, +-3/2 and infinity: rounding errors are twice those of plain sums; with the usual +-1, +-2
// four times (Alam et al., Winograd Convolution for Deep Neural Networks, 2022, choose likewise).
namespace belfry {

namespace winograd {

inline constexpr float kA = 0.75f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
inline constexpr float kZero = 1 / (kA2 * kB2), kOnA = 1 / (2 * kA2 * (kA2 - kB2)),
                       kOnB = 1 / (2 * kB2 * (kB2 - kA2));  // 1 / derivatives at the points

inline VectorF plus(VectorF sum, VectorF x, float factor) { return fused(x, splat(factor), sum); }

struct Inputs {  // B^T
  static constexpr int from = 6, to = 6;
  static void apply(const VectorF* d, VectorF* t) {
    const VectorF even_a = plus(d[4], d[2], -kB2), odd_a = plus(d[3], d[1], -kB2);
    const VectorF even_b = plus(d[4], d[2], -kA2), odd_b = plus(d[3], d[1], -kA2);
    t[0] = plus(plus(d[4], d[0], kA2 * kB2), d[2], -(kA2 + kB2));
    t[1] = plus(even_a, odd_a, kA);
    t[2] = plus(even_a, odd_a, -kA);
    t[3] = plus(even_b, odd_b, kB);
    t[4] = plus(even_b, odd_b, -kB);
    t[5] = plus(plus(d[5], d[1], kA2 * kB2), d[3], -(kA2 + kB2));
  }
};

struct Outputs {  // A^T
  static constexpr int from = 6, to = 4;
  static void apply(const VectorF* m, VectorF* y) {
    const VectorF even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const VectorF even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = plus(odd_a * kA, odd_b, kB);
    y[2] = plus(even_a * kA2, even_b, kB2);
    y[3] = plus(plus(m[5], odd_a, kA2 * kA), odd_b, kB2 * kB);
  }
};

struct Slopes {  // A
  static constexpr int from = 4, to = 6;
  static void apply(const VectorF* y, VectorF* m) {
    const VectorF even_a = plus(y[0], y[2], kA2), odd_a = plus(y[1] * kA, y[3], kA2 * kA);
    const VectorF even_b = plus(y[0], y[2], kB2), odd_b = plus(y[1] * kB, y[3], kB2 * kB);
    m[0] = y[0];
    m[1] = even_a + odd_a;
    m[2] = even_a - odd_a;
    m[3] = even_b + odd_b;
    m[4] = even_b - odd_b;
    m[5] = y[3];
  }
};

struct Taps {  // G
  static constexpr int from = 3, to = 6;
  static void apply(const VectorF* g, VectorF* u) {
    const VectorF even_a = plus(g[0], g[2], kA2) * kOnA, even_b = plus(g[0], g[2], kB2) * kOnB;
    u[0] = g[0] * kZero;
    u[1] = plus(even_a, g[1], kA * kOnA);
    u[2] = plus(even_a, g[1], -kA * kOnA);
    u[3] = plus(even_b, g[1], kB * kOnB);
    u[4] = plus(even_b, g[1], -kB * kOnB);
    u[5] = g[2];
  }
};

struct TapSlopes {  // G^T
  static constexpr int from = 6, to = 3;
  static void apply(const VectorF* s, VectorF* g) {
    const VectorF even_a = (s[1] + s[2]) * kOnA, odd_a = (s[1] - s[2]) * kOnA;
    const VectorF even_b = (s[3] + s[4]) * kOnB, odd_b = (s[3] - s[4]) * kOnB;
    g[0] = plus(even_a + even_b, s[0], kZero);
    g[1] = plus(odd_a * kA, odd_b, kB);
    g[2] = plus(plus(s[5], even_a, kA2), even_b, kB2);
  }
};

// Transform M both ways: store(i, j, (M t M^T)(i, j)) of t(i, j) = load(i, j). Six rows come three
// at a time, from inputs that are loaded twice: 18 vectors stay in registers, 36 do not.
template <class M, class Load, class Store>
inline void transform(const Load& load, const Store& store) {
  constexpr int parts = M::to == 6 ? 2 : 1, rows = M::to / parts;
  BELFRY_UNROLL
  for (int part = 0; part < parts; ++part) {
    VectorF half[std::size_t{rows}][M::from];
    BELFRY_UNROLL
    for (int j = 0; j < M::from; ++j) {
      VectorF column[M::from], done[M::to];
      BELFRY_UNROLL
      for (int i = 0; i < M::from; ++i) column[i] = load(i, j);
      M::apply(column, done);
      BELFRY_UNROLL
      for (int i = 0; i < rows; ++i) half[i][j] = done[part * rows + i];
    }
    BELFRY_UNROLL
    for (int i = 0; i < rows; ++i) {
      VectorF row[M::to];
      M::apply(half[i], row);
      BELFRY_UNROLL
      for (int j = 0; j < M::to; ++j) store(part * rows + i, j, row[j]);
    }
  }
}

}  // namespace winograd
}  // namespace belfry
