// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/matrix/gemm_internal.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>

#include "belfry/autodiff/ops/checks_internal.h"

namespace belfry {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix>;

void eigen_matmul(const MatmulShape& s, const double* a, const double* b, const double* bias,
                  double* c) {
  for (std::int64_t i = 0; i < s.batch; ++i, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n) {
    const bool ta = s.transpose_a != 0, tb = s.transpose_b != 0;
    const ConstMap am(a, ta ? s.k : s.m, ta ? s.m : s.k), bm(b, tb ? s.n : s.k, tb ? s.k : s.n);
    Eigen::Map<Matrix> cm(c, s.m, s.n);
    if (ta && tb)
      cm.noalias() = am.transpose() * bm.transpose();
    else if (ta)
      cm.noalias() = am.transpose() * bm;
    else if (tb)
      cm.noalias() = am * bm.transpose();
    else
      cm.noalias() = am * bm;
    if (bias != nullptr) cm.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(bias, s.n);
  }
}

// No terms to add: c is the bias, or 0.
template <class T>
void no_terms(const MatmulShape& s, const T* bias, T* c) {
  for (std::int64_t r = 0; r < s.batch * s.m; ++r)
    for (std::int64_t j = 0; j < s.n; ++j) c[r * s.n + j] = bias != nullptr ? bias[j] : T(0);
}

}  // namespace

void gemm(const char* op, MatmulShape s, const Tensor& a, const Tensor& b, const Tensor& bias,
          const Tensor& c) {
  if (c.size() == 0) return;
  s.bias = bias.defined() ? 1 : 0;
  Touches touches;
  touches.reads(a.raw(), a.bytes()).reads(b.raw(), b.bytes()).writes(c.raw(), c.bytes());
  if (bias.defined()) touches.reads(bias.raw(), bias.bytes());
  with_float(op, c, [&](auto scalar) {
    using T = decltype(scalar);
    const T* bias_data = bias.defined() ? bias.data<T>() : nullptr;
    if (s.k == 0) {
      stream_of(c).run(touches, [s, bias, bias_data, c] { no_terms(s, bias_data, c.data<T>()); });
    } else if constexpr (std::is_same_v<T, float>) {
      OneDnn* onednn = &c.device().slot<OneDnn>();
      stream_of(c).run(touches, [onednn, s, a, b, bias, bias_data, c] {
        onednn->matmul(s, a.data<float>(), b.data<float>(), bias_data, c.data<float>());
      });
    } else {
      stream_of(c).run(touches, [s, a, b, bias, bias_data, c] {
        eigen_matmul(s, a.data<double>(), b.data<double>(), bias_data, c.data<double>());
      });
    }
  });
}

std::vector<double> plain_matmul(const std::vector<double>& a, const std::vector<double>& b,
                                 std::int64_t m, std::int64_t n, std::int64_t k, bool transposed) {
  std::vector<double> y(static_cast<std::size_t>(m * n));
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t c = 0; c < n; ++c)
      for (std::int64_t i = 0; i < k; ++i)
        y[static_cast<std::size_t>(r * n + c)] +=
            a[static_cast<std::size_t>(r * k + i)] *
            b[static_cast<std::size_t>(transposed ? c * k + i : i * n + c)];
  return y;
}

}  // namespace belfry
