// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

#include "belfry/autodiff/op.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

// c = a b (+ bias) on the stream, by the device's library; shapes may have zeros. `bias` may be
// undefined.
void gemm(const char* op, MatmulShape shape, const Tensor& a, const Tensor& b, const Tensor& bias,
          const Tensor& c);

// y[m, n] = a[m, k] b[k, n], with b stored [n, k] when `transposed`: plain loops, for references.
std::vector<double> plain_matmul(const std::vector<double>& a, const std::vector<double>& b,
                                 std::int64_t m, std::int64_t n, std::int64_t k, bool transposed);

}  // namespace belfry
