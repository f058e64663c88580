// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

// What library calls are planned and cached by. All fields are 64 bits wide: a shape is its own
// hash key.
namespace belfry {

// c[m, n] = a b (+ bias[n]), row-major, once a batch. A transposed operand is stored [k, m] or
// [n, k].
struct MatmulShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t transpose_a = 0, transpose_b = 0, bias = 0;
};

// A convolution of NHWC images with weights [out, kh, kw, in]; the output is [n, oh, ow, out].
struct ConvShape {
  std::int64_t n = 0, h = 0, w = 0, in = 0;
  std::int64_t oh = 0, ow = 0, out = 0, kh = 0, kw = 0;
  std::int64_t stride = 1, padding = 0, bias = 0;
};

// Square pooling windows over NHWC images; the output is [n, oh, ow, c].
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t oh = 0, ow = 0;
  std::int64_t kernel = 2, stride = 2, padding = 0;
};

}  // namespace belfry
