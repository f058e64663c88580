// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__FMA__)
#include <immintrin.h>
#endif

// Vectors of the host's kernels, as wide as the instruction set that the unit is compiled for.
namespace belfry {

#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif

using VectorF [[gnu::vector_size(kVectorBytes)]] = float;
using VectorI [[gnu::vector_size(kVectorBytes)]] = std::int32_t;
using VectorD [[gnu::vector_size(kVectorBytes)]] = double;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using type = VectorF;
};
template <>
struct VectorOf<double> {
  using type = VectorD;
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr std::size_t kVectorLanes = kVectorBytes / sizeof(T);

template <class T>
inline Vector<T> load_vector(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store_vector(T* p, const Vector<T>& v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
inline Vector<T> splat(T x) {
  return x - Vector<T>{};  // x itself, -0 too: a broadcast from memory; 0 + x would be an addition
}

// a b + c, rounded once where the instruction set can.
inline VectorF fused(const VectorF& a, const VectorF& b, const VectorF& c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
inline VectorD fused(const VectorD& a, const VectorD& b, const VectorD& c) { return a * b + c; }

// e^x as exp_of() in math.kernel.h; 1e-38 instead of 0 far below.
inline VectorF exp_vector(VectorF x) {
  const VectorF low = splat(-87.0f), high = splat(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const VectorF shifted = fused(x, splat(1.44269504f), splat(12582912.0f));
  const VectorF n = shifted - 12582912.0f;
  const VectorF r = fused(n, splat(2.12194440e-4f), fused(n, splat(-0.693359375f), x));
  VectorF p = splat(1.9875691500e-4f);
  p = fused(p, r, splat(1.3981999507e-3f));
  p = fused(p, r, splat(8.3334519073e-3f));
  p = fused(p, r, splat(4.1665795894e-2f));
  p = fused(p, r, splat(1.6666665459e-1f));
  p = fused(p, r, splat(5.0000001201e-1f));
  p = fused(p, r * r, r + 1.0f);
  return p * (VectorF)(((VectorI)shifted + 127) << 23);  // the bits of shifted end in n
}
inline VectorD exp_vector(VectorD x) {
  for (std::size_t i = 0; i < kVectorLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace belfry
