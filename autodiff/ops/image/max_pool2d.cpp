// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/max_pool2d.h"

#include <algorithm>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/image/max_pool2d.kernel.h"
#include "belfry/autodiff/ops/image/max_pool2d_backward.kernel.h"
#include "belfry/autodiff/ops/image/pool_internal.h"

namespace belfry {
namespace {

void backward(const PoolShape& s, const Tensor& winner, const Tensor& dy, const Tensor& dx) {
  with_float("max_pool2d", dx, [&](auto scalar) {
    using T = decltype(scalar);
    const std::int32_t* won = winner.data<std::int32_t>();
    if (s.stride >= s.kernel) {
      launch_rows(stream_of(dx), static_cast<std::size_t>(s.n * s.oh),
                  MaxPoolScatter<T>{s, dy.data<T>(), won, dx.data<T>()});
    } else {
      launch_rows(stream_of(dx), static_cast<std::size_t>(s.n * s.h),
                  MaxPoolGather<T>{s, dy.data<T>(), won, dx.data<T>()});
    }
  });
}

}  // namespace

Tensor max_pool2d(const Tensor& x, PoolOptions options) {
  const PoolShape s = pool_shape("max_pool2d", x, options);
  Tensor y = Tensor::empty({s.n, s.oh, s.ow, s.c}, x.dtype(), x.device());
  const Tensor winner = Tensor::empty(y.shape(), DType::i32, x.device());
  with_float("max_pool2d", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(x), static_cast<std::size_t>(s.n * s.oh),
                MaxPoolForward<T>{s, x.data<T>(), y.data<T>(), winner.data<std::int32_t>()});
  });
  return recorded(
      "max_pool2d", std::move(y),
      [s, winner](Backward& b) { backward(s, winner, b.grad(), b.into(0)); }, x);
}

void register_op_max_pool2d(Registry& registry) {
  registry.table<OpEntry>().add(
      "max_pool2d", pool_entry("largest value of each window of NHWC images", "max_pool2d",
                               max_pool2d, [](const std::vector<double>& window, double) {
                                 return *std::max_element(window.begin(), window.end());
                               }));
}

}  // namespace belfry
