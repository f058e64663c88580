// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/shape/reshape.h"

#include "belfry/autodiff/ops/checks_internal.h"

namespace belfry {

Tensor reshape(const Tensor& x, const Shape& shape) {
  x.device();  // throws when undefined
  if (x.size() != shape.size())
    throw_op("reshape", "sizes differ", x.shape().text() + " to " + shape.text(),
             std::to_string(x.size()) + " elements");
  return recorded(
      "reshape", x.view(shape), [from = x.shape()](Backward& b) { b.give(0, b.grad().view(from)); },
      x);
}

void register_op_reshape(Registry& registry) {
  const auto make = [](const char* label, const Shape& from, const Shape& to) {
    OpCase c;
    c.label = label;
    c.inputs = {sample(from)};
    c.run = [to](std::span<const Tensor> t) { return reshape(t[0], to); };
    c.reference = [](std::span<const std::vector<double>> v) { return v[0]; };
    return c;
  };
  OpEntry entry;
  entry.help = "the same elements under another shape";
  entry.cases = [make] {
    return std::vector<OpCase>{make("normal", {4, 6}, {2, 12}), make("odd", {3, 5, 7}, {105}),
                               make("one element", {1, 1}, Shape{}),
                               make("empty", {0, 6}, {2, 0, 3})};
  };
  entry.misuses = [] {
    return std::vector<OpMisuse>{
        {"size",
         [](Device& d) {
           reshape(Tensor::zeros({4, 6}, DType::f32, d), {5, 5});
         },
         {"reshape", "[4, 6]", "[5, 5]", "24"}},
    };
  };
  registry.table<OpEntry>().add("reshape", std::move(entry));
}

}  // namespace belfry
