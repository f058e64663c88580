// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/shape/blocks_internal.h"

#include "belfry/autodiff/ops/shape/strided_copy.kernel.h"

namespace belfry {
namespace {

template <class F>
void launch(const Tensor& t, const AxisBlock& block, F&& make) {
  if (block.outer == 0 || block.width == 0) return;
  with_float("copy", t, [&](auto scalar) {
    launch_rows(stream_of(t), static_cast<std::size_t>(block.outer), make(scalar));
  });
}

}  // namespace

AxisBlock axis_block(const Shape& shape, int axis, std::int64_t first, std::int64_t count) {
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape[a];
  for (int a = axis + 1; a < shape.rank(); ++a) inner *= shape[a];
  return {outer, count * inner, shape[axis] * inner, first * inner};
}

void copy_out(const Tensor& whole, const AxisBlock& block, const Tensor& part) {
  launch(part, block, [&](auto scalar) {
    using T = decltype(scalar);
    const auto width = static_cast<std::size_t>(block.width);
    return StridedCopy<T>{whole.data<T>() + block.first, part.data<T>(),
                          static_cast<std::size_t>(block.stride), width, width};
  });
}

void copy_in(const Tensor& part, const AxisBlock& block, const Tensor& whole) {
  launch(part, block, [&](auto scalar) {
    using T = decltype(scalar);
    const auto width = static_cast<std::size_t>(block.width);
    return StridedCopy<T>{part.data<T>(), whole.data<T>() + block.first, width,
                          static_cast<std::size_t>(block.stride), width};
  });
}

int resolved_axis(const char* op, const Shape& shape, int axis) {
  const int from_start = axis < 0 ? axis + shape.rank() : axis;
  if (from_start < 0 || from_start >= shape.rank())
    throw_op(op, "no such axis", std::to_string(axis) + " of " + shape.text(),
             "an axis of the tensor");
  return from_start;
}

}  // namespace belfry
