// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// (x - mean) / sqrt(variance + eps) weight + bias along the last axis, of n elements: Ba, Kiros and
// Hinton, "Layer normalization", 2016. The variance divides by n. weight and bias are [n].
// f32 or f64; in f32 the mean is corrected once, so that a large offset costs no digits.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

}  // namespace belfry
