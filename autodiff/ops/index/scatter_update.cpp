// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/index/scatter_update.h"

#include "belfry/autodiff/ops/index/scatter_backward.kernel.h"
#include "belfry/autodiff/ops/index/scatter_internal.h"

namespace belfry {
namespace {

// The gradient of values where they have come to stay; that of x elsewhere.
template <class T>
void backward_of(Backward& b, const Tensor& indices, Duplicates duplicates) {
  const Tensor& g = b.grad();
  Stream& stream = stream_of(g);
  const auto places = static_cast<std::size_t>(indices.size()),
             rows = static_cast<std::size_t>(g.shape()[0]),
             width = rows == 0 ? 0 : static_cast<std::size_t>(g.size()) / rows;
  const std::int32_t* const i = indices.data<std::int32_t>();
  Tensor winners;
  if (duplicates == Duplicates::last && places != 0) {
    winners = Tensor::empty(Shape{g.shape()[0]}, DType::i32, g.device());
    launch_rows(stream, 1, LastPlaces{i, winners.data<std::int32_t>(), places, rows});
  }
  const std::int32_t* const w = winners.defined() ? winners.data<std::int32_t>() : nullptr;
  if (b.wants(2)) {
    const Tensor dv = b.into(2);
    launch_elements(stream, places * width,
                    GatherPlaces<T>{i, w, g.data<T>(), dv.data<T>(), places, rows, width});
  }
  if (!b.wants(0)) return;
  const Tensor dx = b.into(0);
  stream.copy(dx.raw(), g.raw(), g.bytes());
  launch_elements(stream, places * width, ClearRows<T>{i, w, dx.data<T>(), places, rows, width});
}

}  // namespace

void scatter_update(const Tensor& target, const Tensor& indices, const Tensor& values,
                    Duplicates duplicates) {
  check_scatter("scatter_update", target, indices, values, true);
  run_scatter("scatter_update", target, indices, values, duplicates, false);
}

Tensor scattered_update(const Tensor& x, const Tensor& indices, const Tensor& values,
                        Duplicates duplicates) {
  check_scatter("scattered_update", x, indices, values, false);
  Tensor y = copy_of(x);
  run_scatter("scattered_update", y, indices, values, duplicates, false);
  const auto backward = [i = indices.detach(), duplicates](Backward& b) {
    with_float("scattered_update", b.grad(),
               [&](auto scalar) { backward_of<decltype(scalar)>(b, i, duplicates); });
  };
  return recorded("scattered_update", std::move(y), backward, x, indices, values);
}

void register_op_scatter_update(Registry& registry) {
  registry.table<OpEntry>().add(
      "scatter_update", scatter_entry("rows of a tensor are replaced by index", scattered_update,
                                      scatter_update, false));
}

}  // namespace belfry
