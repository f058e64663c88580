// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/shape/concat.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/shape/blocks_internal.h"

namespace belfry {
namespace {

// The shape of the whole.
Shape check(const std::vector<Tensor>& parts, int axis) {
  const Tensor& first = parts[0];
  std::int64_t extent = 0;
  for (const Tensor& t : parts) {
    require_float("concat", t);
    require_like("concat", first, t, "a part");
    const Shape& s = t.shape();
    if (s.rank() != first.shape().rank() || !(s.with(axis, 1) == first.shape().with(axis, 1)))
      throw_op("concat", "a part does not fit", first.shape().text() + " and " + s.text(),
               "equal extents but for axis " + std::to_string(axis));
    extent += s[axis];
  }
  return first.shape().with(axis, extent);
}

}  // namespace

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  if (parts.empty()) throw_op("concat", "nothing to join", "no parts", "at least 1");
  require_float("concat", parts[0]);
  const int a = resolved_axis("concat", parts[0].shape(), axis);
  Tensor y = Tensor::empty(check(parts, a), parts[0].dtype(), parts[0].device());
  std::vector<AxisBlock> blocks;
  std::int64_t at = 0;
  for (const Tensor& t : parts) {
    blocks.push_back(axis_block(y.shape(), a, at, t.shape()[a]));
    copy_in(t, blocks.back(), y);
    at += t.shape()[a];
  }
  if (Tape* tape = Scope::tape())
    tape->record("concat", parts, y, [blocks](Backward& b) {
      for (std::size_t i = 0; i < blocks.size(); ++i)
        if (b.wants(static_cast<int>(i)))
          copy_out(b.grad(), blocks[i], b.into(static_cast<int>(i)));
    });
  return y;
}

namespace {

OpCase concat_case(const char* label, const std::vector<Shape>& shapes, int axis) {
  OpCase c;
  c.label = label;
  for (std::size_t i = 0; i < shapes.size(); ++i) c.inputs.push_back(sample(shapes[i], 1.0, i + 1));
  c.run = [axis](std::span<const Tensor> t) {
    return concat(std::vector<Tensor>(t.begin(), t.end()), axis);
  };
  const int a = axis < 0 ? axis + shapes[0].rank() : axis;
  c.reference = [shapes, a](std::span<const std::vector<double>> v) {
    std::int64_t outer = 1;
    for (int i = 0; i < a; ++i) outer *= shapes[0][i];
    std::vector<double> y;
    for (std::int64_t o = 0; o < outer; ++o)
      for (const auto& part : v) {
        const auto width = static_cast<std::ptrdiff_t>(part.size()) / outer;
        y.insert(y.end(), part.begin() + o * width, part.begin() + (o + 1) * width);
      }
    return y;
  };
  return c;
}

}  // namespace

void register_op_concat(Registry& registry) {
  OpEntry entry;
  entry.help = "tensors one after the other along an axis";
  entry.cases = [] {
    return std::vector<OpCase>{
        concat_case("rows", {{2, 4}, {3, 4}}, 0),
        concat_case("columns", {{4, 3}, {4, 9}, {4, 1}}, -1),
        concat_case("odd, middle axis", {{3, 2, 7}, {3, 5, 7}}, 1),
        concat_case("one part", {{3, 2}}, 1),
        concat_case("one element", {{1}, {1}}, 0),
        concat_case("empty part", {{2, 0}, {2, 3}}, 1),
        concat_case("empty", {{0, 3}, {0, 3}}, 0),
    };
  };
  entry.misuses = [] {
    const auto call = [](const Shape& a, const Shape& b, int axis, DType type = DType::f32) {
      return [=](Device& d) {
        concat({Tensor::zeros(a, DType::f32, d), Tensor::zeros(b, type, d)}, axis);
      };
    };
    return std::vector<OpMisuse>{
        {"nothing", [](Device&) { concat({}, 0); }, {"concat", "no parts"}},
        {"axis", call({2, 3}, {2, 3}, 2), {"concat", "axis", "[2, 3]"}},
        {"extents", call({2, 3}, {3, 3}, 1), {"concat", "[2, 3]", "[3, 3]"}},
        {"ranks", call({2, 3}, {2}, 0), {"concat", "[2, 3]", "[2]"}},
        {"types", call({2, 3}, {2, 3}, 0, DType::f64), {"concat", "f32", "f64"}},
    };
  };
  registry.table<OpEntry>().add("concat", std::move(entry));
}

}  // namespace belfry
