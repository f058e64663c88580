// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/device/half.h"
#include "belfry/device/multiply_add.h"

// Elementary functions of kernels. The f32 forms are short polynomials without branches or calls,
// so that compilers turn loops over them into vector code (libm: 5 to 10 ns an element); f64 is
// libm. NaN passes through all of them.
namespace belfry {

// e^x, relative error below 1.2e-7 (measured); 0 from -87 downwards, where f32 has no normal number
// soon, and infinity from 88.73 upwards.
BELFRY_HD inline float exp_of(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted =
      multiply_add(x, 1.44269504f, 12582912.0f);  // 1.5 * 2^23: rounds to the nearest integer
  const float n = shifted - 12582912.0f;
  const float r =
      multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));  // ln 2 in two parts
  float p = 2 * 1.9875691500e-4f;  // of 2 e^r: 2^(n - 1) exists for n = 128, too
  p = multiply_add(p, r, 2 * 1.3981999507e-3f);
  p = multiply_add(p, r, 2 * 8.3334519073e-3f);
  p = multiply_add(p, r, 2 * 4.1665795894e-2f);
  p = multiply_add(p, r, 2 * 1.6666665459e-1f);
  p = multiply_add(p, r, 2 * 5.0000001201e-1f);
  p = multiply_add(p, r * r, 2 * r) + 2.0f;
  // The integer sits in the low bits of `shifted`; 2^(n - 1) by building its exponent field.
  return p * bits_float((float_bits(shifted) + 126u) << 23);
}
BELFRY_HD inline double exp_of(double x) { return std::exp(x); }

// Odd rational approximation, relative error below 4.2e-7 (measured), never above 1.
BELFRY_HD inline float tanh_of(float x) {
  float c = x < -7.9053111f ? -7.9053111f : x;
  c = c > 7.9053111f ? 7.9053111f : c;
  const float s = c * c;
  float p = -2.76076847742355e-16f;
  p = multiply_add(p, s, 2.00018790482477e-13f);
  p = multiply_add(p, s, -8.60467152213735e-11f);
  p = multiply_add(p, s, 5.12229709037114e-08f);
  p = multiply_add(p, s, 1.48572235717979e-05f);
  p = multiply_add(p, s, 6.37261928875436e-04f);
  p = multiply_add(p, s, 4.89352455891786e-03f);
  float q = 1.19825839466702e-06f;
  q = multiply_add(q, s, 1.18534705686654e-04f);
  q = multiply_add(q, s, 2.26843463243900e-03f);
  q = multiply_add(q, s, 4.89352518554385e-03f);
  return c * (p / q);
}
BELFRY_HD inline double tanh_of(double x) { return std::tanh(x); }

template <class T>
BELFRY_HD inline T sigmoid_of(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

// GELU in its tanh form: gelu(x) = x sigmoid(2u), u = c (x + 0.044715 x^3). Below -9 it is 0 to
// 1e-27, its slope too, which is 1 above 9: the bounds keep infinity times 0 away.
template <class T>
BELFRY_HD inline T gelu_of(T x) {
  x = x < T(-9) ? T(-9) : x;
  const T u2 = T(2 * 0.7978845608028654) * (x + T(0.044715) * x * x * x);
  return x * sigmoid_of(u2);
}
template <class T>
BELFRY_HD inline T gelu_slope(T x) {
  x = x < T(-9) ? T(-9) : x;
  x = x > T(9) ? T(9) : x;
  const T u2 = T(2 * 0.7978845608028654) * (x + T(0.044715) * x * x * x);
  const T du2 = T(2 * 0.7978845608028654) * (T(1) + T(3 * 0.044715) * x * x);
  const T e = exp_of(-u2), s = T(1) / (T(1) + e);
  return s + x * s * (e * s) * du2;  // e s = 1 - s, without its cancellation
}

// Both at once: they share the exponential.
template <class T>
struct ValueAndSlope {
  T value, slope;
};
template <class T>
BELFRY_HD inline ValueAndSlope<T> gelu_both(T x) {
  x = x < T(-9) ? T(-9) : x;
  const T c = x > T(9) ? T(9) : x;
  const T u2 = T(2 * 0.7978845608028654) * (c + T(0.044715) * c * c * c);
  const T du2 = T(2 * 0.7978845608028654) * (T(1) + T(3 * 0.044715) * c * c);
  const T e = exp_of(-u2), s = T(1) / (T(1) + e);
  return {x * s, s + c * s * (e * s) * du2};
}

}  // namespace belfry
