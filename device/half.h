// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>

#include "belfry/core/host_device.h"
#include "belfry/device/types.h"

namespace belfry {

BELFRY_HD inline std::uint32_t float_bits(float v) {
  std::uint32_t b;
  memcpy(&b, &v, 4);
  return b;
}
BELFRY_HD inline float bits_float(std::uint32_t b) {
  float v;
  memcpy(&v, &b, 4);
  return v;
}

// Storage types; arithmetic happens in f32. Conversions round to nearest even and keep NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  BELFRY_HD explicit BFloat16(float v) {
    const std::uint32_t b = float_bits(v);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (b >> 16) | 0x40u
                                          : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
  }
  BELFRY_HD explicit operator float() const { return bits_float(std::uint32_t{bits} << 16); }
};

struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  BELFRY_HD explicit Half(float v) {
    const std::uint32_t b = float_bits(v), sign = (b >> 16) & 0x8000u, mag = b & 0x7fffffffu;
    std::uint32_t h;
    if (mag > 0x7f800000u) {
      h = 0x7e00u;
    } else if (mag >= 0x477ff000u) {  // rounds to 65536 or more
      h = 0x7c00u;
    } else if (mag >= 0x38800000u) {  // normal: rebias the exponent, round the 13 lost bits
      h = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1u)) >> 13;
    } else {  // subnormal: adding 0.5 lets the FPU round at 2^-24
      h = float_bits(bits_float(mag) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(sign | h);
  }
  BELFRY_HD explicit operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, mag = bits & 0x7fffu;
    if (mag >= 0x7c00u) return bits_float(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
    if (mag >= 0x400u) return bits_float(sign | ((mag << 13) + 0x38000000u));
    const float v = static_cast<float>(mag) * 0x1p-24f;
    return sign != 0 ? -v : v;
  }
};

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<Half>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}

}  // namespace belfry
