// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/shape/slice.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/shape/blocks_internal.h"

namespace belfry {

Tensor slice(const Tensor& x, int axis, std::int64_t first, std::int64_t count) {
  require_float("slice", x);
  const int a = resolved_axis("slice", x.shape(), axis);
  const std::int64_t extent = x.shape()[a];
  if (first < 0 || count < 0 || first > extent || count > extent - first)
    throw_op("slice", "the part does not lie inside",
             std::to_string(count) + " from " + std::to_string(first) + " on along axis " +
                 std::to_string(a) + " of " + x.shape().text(),
             "elements inside [0, " + std::to_string(extent) + ")");
  const AxisBlock block = axis_block(x.shape(), a, first, count);
  Tensor y;
  if (a == 0) {
    y = x.rows(first, count);
  } else {
    y = Tensor::empty(x.shape().with(a, count), x.dtype(), x.device());
    copy_out(x, block, y);
  }
  const auto backward = [block](Backward& b) {
    const Tensor dx = b.into(0);
    fill_zero(dx);
    copy_in(b.grad(), block, dx);
  };
  return recorded("slice", std::move(y), backward, x);
}

namespace {

OpCase slice_case(const char* label, const Shape& shape, int axis, std::int64_t first,
                  std::int64_t count) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape)};
  c.run = [=](std::span<const Tensor> t) { return slice(t[0], axis, first, count); };
  const int a = axis < 0 ? axis + shape.rank() : axis;
  c.reference = [=](std::span<const std::vector<double>> v) {
    std::int64_t outer = 1, inner = 1;
    for (int i = 0; i < a; ++i) outer *= shape[i];
    for (int i = a + 1; i < shape.rank(); ++i) inner *= shape[i];
    std::vector<double> y;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t k = first; k < first + count; ++k)
        for (std::int64_t i = 0; i < inner; ++i)
          y.push_back(v[0][static_cast<std::size_t>((o * shape[a] + k) * inner + i)]);
    return y;
  };
  return c;
}

}  // namespace

void register_op_slice(Registry& registry) {
  OpEntry entry;
  entry.help = "a part along one axis";
  entry.cases = [] {
    return std::vector<OpCase>{
        slice_case("rows", {6, 4}, 0, 2, 3),
        slice_case("columns", {6, 9}, -1, 3, 5),
        slice_case("odd, middle axis", {3, 5, 7}, 1, 1, 3),
        slice_case("all", {4, 3}, 1, 0, 3),
        slice_case("one element", {3, 3}, 1, 2, 1),
        slice_case("empty part", {4, 3}, 1, 3, 0),
        slice_case("empty", {0, 3}, 1, 1, 2),
    };
  };
  entry.misuses = [] {
    const auto call = [](const Shape& s, int axis, std::int64_t first, std::int64_t count,
                         DType type = DType::f32) {
      return [=](Device& d) { slice(Tensor::zeros(s, type, d), axis, first, count); };
    };
    return std::vector<OpMisuse>{
        {"axis", call({4, 3}, 2, 0, 1), {"slice", "axis", "[4, 3]"}},
        {"past the end", call({4, 3}, 1, 2, 2), {"slice", "2 from 2", "[0, 3)"}},
        {"negative", call({4, 3}, 0, -1, 2), {"slice", "-1"}},
        {"integers", call({4, 3}, 0, 0, 1, DType::i32), {"slice", "i32"}},
    };
  };
  registry.table<OpEntry>().add("slice", std::move(entry));
}

}  // namespace belfry
