// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/matrix/transpose.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/matrix/transpose.kernel.h"

namespace belfry {
namespace {

void transpose_into(const Tensor& x, const Tensor& y) {
  if (x.size() == 0) return;
  with_float("transpose", x, [&](auto scalar) {
    using T = decltype(scalar);
    const auto m = static_cast<std::size_t>(x.shape()[-2]),
               n = static_cast<std::size_t>(x.shape()[-1]);
    launch_rows(stream_of(x), static_cast<std::size_t>(x.size()) / m,
                TransposeRow<T>{x.data<T>(), y.data<T>(), m, n});
  });
}

}  // namespace

Tensor transpose(const Tensor& x) {
  require_float("transpose", x);
  require_rank_at_least("transpose", x, 2, "input");
  const Shape shape = x.shape().with(-1, x.shape()[-2]).with(-2, x.shape()[-1]);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  transpose_into(x, y);
  return recorded(
      "transpose", std::move(y), [](Backward& b) { transpose_into(b.grad(), b.into(0)); }, x);
}

void register_op_transpose(Registry& registry) {
  const auto make = [](const char* label, const Shape& shape) {
    OpCase c;
    c.label = label;
    c.inputs = {sample(shape)};
    c.run = [](std::span<const Tensor> t) { return transpose(t[0]); };
    const auto m = static_cast<std::size_t>(shape[-2]), n = static_cast<std::size_t>(shape[-1]);
    c.reference = [m, n](std::span<const std::vector<double>> v) {
      std::vector<double> y;
      for (std::size_t base = 0; base < v[0].size(); base += m * n)
        for (std::size_t c2 = 0; c2 < n; ++c2)
          for (std::size_t r = 0; r < m; ++r) y.push_back(v[0][base + r * n + c2]);
      return y;
    };
    return c;
  };
  OpEntry entry;
  entry.help = "the last two axes exchanged";
  entry.cases = [make] {
    return std::vector<OpCase>{make("normal", {8, 16}), make("odd", {3, 5, 7}),
                               make("one element", {1, 1}), make("empty", {0, 4})};
  };
  entry.misuses = [] {
    return std::vector<OpMisuse>{
        {"rank",
         [](Device& d) { transpose(Tensor::zeros({4}, DType::f32, d)); },
         {"transpose", "input", "[4]"}},
        {"integers",
         [](Device& d) {
           transpose(Tensor::zeros({4, 4}, DType::i32, d));
         },
         {"transpose", "i32"}},
    };
  };
  registry.table<OpEntry>().add("transpose", std::move(entry));
}

}  // namespace belfry
