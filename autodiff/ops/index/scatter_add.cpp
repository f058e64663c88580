// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/index/scatter_add.h"

#include "belfry/autodiff/ops/index/scatter_backward.kernel.h"
#include "belfry/autodiff/ops/index/scatter_internal.h"

namespace belfry {

void scatter_add(const Tensor& target, const Tensor& indices, const Tensor& values,
                 Duplicates duplicates) {
  check_scatter("scatter_add", target, indices, values, true);
  run_scatter("scatter_add", target, indices, values, duplicates, true);
}

Tensor scattered_add(const Tensor& x, const Tensor& indices, const Tensor& values,
                     Duplicates duplicates) {
  check_scatter("scattered_add", x, indices, values, false);
  Tensor y = copy_of(x);
  run_scatter("scattered_add", y, indices, values, duplicates, true);
  const auto backward = [i = indices.detach(), rows = x.shape()[0]](Backward& b) {
    if (b.wants(2)) {
      const Tensor dv = b.into(2);
      with_float("scattered_add", dv, [&](auto scalar) {
        using T = decltype(scalar);
        const auto n = static_cast<std::size_t>(dv.size()),
                   places = static_cast<std::size_t>(i.size());
        if (n != 0)
          launch_elements(
              stream_of(dv), n,
              GatherPlaces<T>{i.data<std::int32_t>(), nullptr, b.grad().data<T>(), dv.data<T>(),
                              places, static_cast<std::size_t>(rows), n / places});
      });
    }
    if (b.wants(0)) b.give(0, b.grad());
  };
  return recorded("scattered_add", std::move(y), backward, x, indices, values);
}

void register_op_scatter_add(Registry& registry) {
  registry.table<OpEntry>().add(
      "scatter_add", scatter_entry("rows are added to those of a tensor by index", scattered_add,
                                   scatter_add, true));
}

}  // namespace belfry
