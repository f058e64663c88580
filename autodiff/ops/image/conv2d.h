// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/ops/activation.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

struct Conv2dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros around the image, on all four sides
};

// act(convolution + bias) of NHWC images: x [n, h, w, in], weight [out, kh, kw, in], bias [out] or
// undefined, giving [n, oh, ow, out] with oh = (h + 2 padding - kh) / stride + 1, rounded down.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Conv2dOptions options = {}, Activation activation = Activation::none);

}  // namespace belfry
