// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/avg_pool2d.h"

#include "belfry/autodiff/ops/image/avg_pool2d.kernel.h"
#include "belfry/autodiff/ops/image/pool_internal.h"

namespace belfry {

Tensor avg_pool2d(const Tensor& x, PoolOptions options) {
  const PoolShape s = pool_shape("avg_pool2d", x, options);
  Tensor y = Tensor::empty({s.n, s.oh, s.ow, s.c}, x.dtype(), x.device());
  with_float("avg_pool2d", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(x), static_cast<std::size_t>(s.n * s.oh),
                AvgPoolForward<T>{s, x.data<T>(), y.data<T>()});
  });
  const auto backward = [s](Backward& b) {
    const Tensor dx = b.into(0);
    with_float("avg_pool2d", dx, [&](auto scalar) {
      using T = decltype(scalar);
      launch_rows(stream_of(dx), static_cast<std::size_t>(s.n * s.h),
                  AvgPoolBackward<T>{s, b.grad().data<T>(), dx.data<T>()});
    });
  };
  return recorded("avg_pool2d", std::move(y), backward, x);
}

void register_op_avg_pool2d(Registry& registry) {
  registry.table<OpEntry>().add(
      "avg_pool2d", pool_entry("mean of each window of NHWC images", "avg_pool2d", avg_pool2d,
                               [](const std::vector<double>& window, double area) {
                                 double sum = 0;
                                 for (const double v : window) sum += v;
                                 return sum / area;
                               }));
}

}  // namespace belfry
