// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

struct BatchNormOptions {
  double eps = 1e-5;  // added to the variance
  bool relu = false;  // max(0, .) of the result
};

// (x - mean) / sqrt(variance + eps) * weight + bias (+ residual) (then ReLU) over the last axis'
// channels of NHWC images or [rows, channels], with mean and (biased) variance of x itself: Ioffe
// and Szegedy, 2015. At least 2 values a channel. Sums are added up in double. `residual`, of x's
// shape, may be undefined. `moments`, where not null, becomes [2, channels]: the mean and the sum
// of squared differences from it. f32 or f64.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                  BatchNormOptions options = {}, Tensor* moments = nullptr);

// The same with statistics that are given, [channels] each, and not differentiated: evaluation.
Tensor batch_norm_given(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, const Tensor& mean, const Tensor& variance,
                        BatchNormOptions options = {});

}  // namespace belfry
