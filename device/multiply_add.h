// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"

namespace belfry {

// a b + c, the one thing that is contracted: f32 rounds once where the hardware does that at the
// price of a multiplication (GPUs, AVX2 and AVX-512 levels), else twice. f64 always rounds twice.
BELFRY_HD inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
BELFRY_HD inline double multiply_add(double a, double b, double c) { return a * b + c; }

}  // namespace belfry
