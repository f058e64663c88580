// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/matrix/gemm_internal.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>

#include "belfry/autodiff/ops/matrix/gemm_call.h"
#include "belfry/device/cpu/onednn_internal.h"

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

template <class T>
void GemmCall<T>::operator()(HostTeam&, std::size_t) const {
  if (s.k == 0)
    no_terms(s, bias, c);
  else if constexpr (std::is_same_v<T, float>)
    onednn->matmul(s, a, b, bias, c);
  else
    eigen_matmul(s, a, b, bias, c);
}
template struct GemmCall<float>;
template struct GemmCall<double>;

void gemm(const char* op, MatmulShape s, const Tensor& a, const Tensor& b, const Tensor& bias,
          const Tensor& c) {
  if (c.size() == 0) return;
  s.bias = bias.defined() ? 1 : 0;
  Device& device = c.device();
  with_float(op, c, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(
        device.main(), 1,
        GemmCall<T>{s, a.data<T>(), b.data<T>(), bias.defined() ? bias.data<T>() : nullptr,
                    c.data<T>(),
                    device.id().backend == Backend::cpu ? &device.slot<OneDnn>() : nullptr});
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
