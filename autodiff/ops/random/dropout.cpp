// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/random/dropout.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/random/dropout.kernel.h"
#include "belfry/autodiff/ops/random/dropout_draw_internal.h"

namespace belfry {
namespace {

void apply(const DropoutDraw& draw, double p, const Tensor& x, const Tensor& y) {
  if (x.size() == 0) return;
  with_float("dropout", x, [&](auto scalar) {
    using T = decltype(scalar);
    const auto rows = static_cast<std::size_t>(x.shape()[0]);
    launch_rows(stream_of(x), rows,
                DropoutRow<T>{draw, static_cast<T>(1 / (1 - p)), x.data<T>(), y.data<T>(),
                              static_cast<std::size_t>(x.size()) / rows});
  });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, std::uint64_t path) {
  require_float("dropout", x);
  require_rank_at_least("dropout", x, 1, "input");
  const DropoutDraw draw = next_dropout("dropout", x, p, path);
  if (draw.p == 0) return x;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  apply(draw, p, x, y);
  return recorded(
      "dropout", std::move(y),
      [draw, p](Backward& b) { apply(draw, p, b.grad(), b.into_in_place(0)); }, x);
}

namespace {

Tensor in_training(const Tensor& x, double p) {
  Scope::Options o = Scope::current() != nullptr ? Scope::current()->options() : Scope::Options{};
  o.training = true;
  o.seed = 42, o.update = 3, o.first_row = 5;
  const Scope scope(o);
  return dropout(x, p, name_hash("block.dropout"));
}

OpCase dropout_case(const char* label, const Shape& shape, double p) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape)};
  c.run = [p](std::span<const Tensor> t) { return in_training(t[0], p); };
  c.reference = [shape, p](std::span<const std::vector<double>> v) {
    const std::uint64_t path = name_hash("block.dropout");
    const Philox philox = philox_key(42, Purpose::dropout);
    std::vector<double> y;
    const std::size_t columns = v[0].empty() ? 1 : v[0].size() / static_cast<std::size_t>(shape[0]);
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      const std::size_t row = i / columns, column = i % columns;
      const auto words =
          philox(static_cast<std::uint32_t>(path ^ (path >> 32)), 3,
                 static_cast<std::uint32_t>(5 + row), static_cast<std::uint32_t>(column / 4));
      y.push_back(unit_float(words.v[column % 4]) >= static_cast<float>(p) ? v[0][i] / (1 - p) : 0);
    }
    return y;
  };
  return c;
}

}  // namespace

void register_op_dropout(Registry& registry) {
  OpEntry entry;
  entry.help = "zeroes elements with probability p in training";
  entry.cases = [] {
    return std::vector<OpCase>{
        dropout_case("normal", {8, 32}, 0.5), dropout_case("odd", {3, 5, 7}, 0.3),
        dropout_case("one element", {1}, 0.2), dropout_case("none", {4, 4}, 0.0),
        dropout_case("empty", {0, 5}, 0.5)};
  };
  entry.misuses = [] {
    return std::vector<OpMisuse>{
        {"rank",
         [](Device& d) { in_training(Tensor::zeros({}, DType::f32, d), 0.5); },
         {"dropout", "input", "[]"}},
        {"integers",
         [](Device& d) { in_training(Tensor::zeros({2}, DType::i32, d), 0.5); },
         {"dropout", "i32"}},
        {"rows moved",
         [](Device& d) {
           const Scope scope({.training = true, .rows = 8});
           dropout(Tensor::zeros({4, 8}, DType::f32, d), 0.5, 1);
         },
         {"dropout", "batch must stay the outermost axis", "[4, 8]", "8 rows"}},
    };
  };
  registry.table<OpEntry>().add("dropout", std::move(entry));
}

}  // namespace belfry
