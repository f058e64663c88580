// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/silu.h"

#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/elementwise/activate_internal.h"
#include "belfry/autodiff/ops/elementwise/silu.kernel.h"

namespace belfry {

Tensor silu(const Tensor& x) {
  require_float("silu", x);
  return with_float("silu", x, [&](auto scalar) {
    using T = decltype(scalar);
    Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    const auto n = static_cast<std::size_t>(x.size());
    launch_elements(stream_of(x), n, SiluForward<T>{x.data<T>(), y.data<T>()});
    const auto backward = [x = x.detach(), n](Backward& b) {
      const T* const g = b.grad().data<T>();  // a copy of the tensor would share its memory
      const Tensor dx = b.into_in_place(0);
      launch_elements(stream_of(x), n, SiluBackward<T>{x.data<T>(), g, dx.data<T>()});
    };
    return recorded("silu", std::move(y), backward, x);
  });
}

void register_op_silu(Registry& registry) {
  registry.table<OpEntry>().add("silu", activation_entry("x sigmoid(x)", silu, [](double v) {
                                  return v / (1 + std::exp(-v));
                                }));
}

}  // namespace belfry
