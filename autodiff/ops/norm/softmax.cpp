// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/norm/softmax.h"

#include <algorithm>
#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/norm/softmax.kernel.h"

namespace belfry {

Tensor softmax(const Tensor& x) {
  require_float("softmax", x);
  require_rank_at_least("softmax", x, 1, "input");
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const auto columns = static_cast<std::size_t>(x.shape()[-1]);
  const std::size_t rows = columns == 0 ? 0 : static_cast<std::size_t>(x.size()) / columns;
  return with_float("softmax", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(x), rows, SoftmaxRow<T>{x.data<T>(), y.data<T>(), columns});
    const auto backward = [y = y.detach(), rows, columns](Backward& b) {
      const T* const g = b.grad().data<T>();
      const Tensor dx = b.into_in_place(0);
      launch_rows(stream_of(y), rows, SoftmaxBackwardRow<T>{y.data<T>(), g, dx.data<T>(), columns});
    };
    return recorded("softmax", y, backward, x);
  });
}

namespace {

OpCase softmax_case(const char* label, const Shape& shape, double limit) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape, limit)};
  c.run = [](std::span<const Tensor> t) { return softmax(t[0]); };
  const auto columns = static_cast<std::size_t>(shape[-1]);
  c.reference = [columns](std::span<const std::vector<double>> v) {
    std::vector<double> y;
    for (std::size_t r = 0; columns > 0 && r < v[0].size(); r += columns) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i) sum += std::exp(v[0][r + i]);
      for (std::size_t i = 0; i < columns; ++i) y.push_back(std::exp(v[0][r + i]) / sum);
    }
    return y;
  };
  return c;
}

}  // namespace

void register_op_softmax(Registry& registry) {
  OpEntry entry;
  entry.help = "e^x over its sum along the last axis";
  entry.cases = [] {
    return std::vector<OpCase>{
        softmax_case("normal", {8, 16}, 2.0),     softmax_case("odd", {3, 5, 7}, 3.0),
        softmax_case("wide", {3, 131}, 5.0),      softmax_case("large values", {4, 9}, 60.0),
        softmax_case("one element", {1, 1}, 1.0), softmax_case("vector", {5}, 1.0),
        softmax_case("empty", {0, 7}, 1.0),       softmax_case("empty rows", {3, 0}, 1.0),
    };
  };
  entry.misuses = [] {
    return std::vector<OpMisuse>{
        {"integers",
         [](Device& d) {
           softmax(Tensor::zeros({2, 2}, DType::i32, d));
         },
         {"softmax", "i32"}},
        {"scalar",
         [](Device& d) { softmax(Tensor::zeros({}, DType::f32, d)); },
         {"softmax", "input", "[]"}},
    };
  };
  registry.table<OpEntry>().add("softmax", std::move(entry));
}

}  // namespace belfry
