// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/unroll.h"

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#endif

// A register of f32 lanes for host kernels that compilers do not vectorise well enough: 16 on
// AVX-512, 8 on AVX2, 4 plain floats elsewhere. What it means depends on how the file that includes
// it is compiled: for kernels that are listed once an instruction set (device/host_kernels.h).
namespace belfry {

#if defined(__AVX512F__)
struct Lanes {
  static constexpr int count = 16;
  __m512 v;
  static Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  static Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void add_product(Lanes a, Lanes b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
};
// rows[k] -> columns: element j of row k goes to lane k of column j.
inline void transpose(Lanes (&r)[16]) {
  __m512 t[16];
  const auto d = [](__m512 x) { return _mm512_castps_pd(x); };
  BELFRY_UNROLL
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
  }
  BELFRY_UNROLL
  for (int i = 0; i < 4; ++i)
    for (int h = 0; h < 2; ++h) {
      const __m512d a = d(t[4 * i + h]), b = d(t[4 * i + 2 + h]);
      r[4 * i + 2 * h].v = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[4 * i + 2 * h + 1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  BELFRY_UNROLL
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_f32x4(r[j].v, r[4 + j].v, 0x88);
    t[4 + j] = _mm512_shuffle_f32x4(r[j].v, r[4 + j].v, 0xdd);
    t[8 + j] = _mm512_shuffle_f32x4(r[8 + j].v, r[12 + j].v, 0x88);
    t[12 + j] = _mm512_shuffle_f32x4(r[8 + j].v, r[12 + j].v, 0xdd);
  }
  BELFRY_UNROLL
  for (int j = 0; j < 4; ++j) {
    r[j].v = _mm512_shuffle_f32x4(t[j], t[8 + j], 0x88);
    r[8 + j].v = _mm512_shuffle_f32x4(t[j], t[8 + j], 0xdd);
    r[4 + j].v = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0x88);
    r[12 + j].v = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0xdd);
  }
}
#elif defined(__AVX2__) && defined(__FMA__)
struct Lanes {
  static constexpr int count = 8;
  __m256 v;
  static Lanes all(float x) { return {_mm256_set1_ps(x)}; }
  static Lanes load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void add_product(Lanes a, Lanes b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
};
inline void transpose(Lanes (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
  }
  for (int i = 0; i < 2; ++i)
    for (int h = 0; h < 2; ++h) {
      r[4 * i + 2 * h].v = _mm256_shuffle_ps(t[4 * i + h], t[4 * i + 2 + h], 0x44);
      r[4 * i + 2 * h + 1].v = _mm256_shuffle_ps(t[4 * i + h], t[4 * i + 2 + h], 0xee);
    }
  BELFRY_UNROLL
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm256_permute2f128_ps(r[j].v, r[4 + j].v, 0x20);
    t[4 + j] = _mm256_permute2f128_ps(r[j].v, r[4 + j].v, 0x31);
  }
  for (int j = 0; j < 8; ++j) r[j].v = t[j];
}
#else
struct Lanes {
  static constexpr int count = 4;
  float v[4];
  static Lanes all(float x) { return {{x, x, x, x}}; }
  static Lanes load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
  void store(float* p) const {
    for (int k = 0; k < 4; ++k) p[k] = v[k];
  }
  void add_product(Lanes a, Lanes b) {
    for (int k = 0; k < 4; ++k) v[k] += a.v[k] * b.v[k];
  }
};
inline void transpose(Lanes (&r)[4]) {
  Lanes t[4];
  BELFRY_UNROLL
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) t[j].v[i] = r[i].v[j];
  for (int i = 0; i < 4; ++i) r[i] = t[i];
}
#endif

// The lanes' sum by halves.
inline float sum_of(Lanes x) {
  float p[Lanes::count];
  x.store(p);
  for (int s = Lanes::count / 2; s > 0; s /= 2)
    for (int k = 0; k < s; ++k) p[k] += p[k + s];
  return p[0];
}

}  // namespace belfry
