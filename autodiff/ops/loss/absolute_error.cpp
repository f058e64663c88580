// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/loss/absolute_error.h"

#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/absolute_error.kernel.h"

namespace belfry {

Metric absolute_error(const Tensor& prediction, const Tensor& target) {
  require_float("absolute_error", prediction);
  require_same("absolute_error", prediction, target);
  Metric metric{Tensor::empty({}, prediction.dtype(), prediction.device()),
                Tensor::empty({}, prediction.dtype(), prediction.device())};
  with_float("absolute_error", prediction, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(prediction), 1,
                SumAbsoluteError<T>{prediction.data<T>(), target.data<T>(),
                                    static_cast<std::size_t>(prediction.size()),
                                    metric.sum.data<T>(), metric.weight.data<T>()});
  });
  return metric;
}

namespace {

OpCase absolute_error_case(const char* label, const Shape& shape) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape), sample(shape, 1.0, 2)};
  c.run = [](std::span<const Tensor> t) { return absolute_error(t[0], t[1]).sum; };
  c.smooth = false;
  c.reference = [](std::span<const std::vector<double>> v) {
    double total = 0;
    for (std::size_t i = 0; i < v[0].size(); ++i) total += std::abs(v[0][i] - v[1][i]);
    return std::vector<double>{total};
  };
  return c;
}

}  // namespace

void register_op_absolute_error(Registry& registry) {
  OpEntry entry;
  entry.help = "sum of absolute differences, with their number";
  entry.cases = [] {
    return std::vector<OpCase>{
        absolute_error_case("normal", {8, 16}), absolute_error_case("odd", {3, 5, 7}),
        absolute_error_case("one element", {1}), absolute_error_case("empty", {0, 4})};
  };
  entry.misuses = [] {
    const auto call = [](const Shape& a, const Shape& b, DType type) {
      return [=](Device& d) {
        absolute_error(Tensor::zeros(a, DType::f32, d), Tensor::zeros(b, type, d));
      };
    };
    return std::vector<OpMisuse>{
        {"shapes", call({4, 1}, {4}, DType::f32), {"absolute_error", "[4, 1]", "[4]"}},
        {"types", call({4}, {4}, DType::f64), {"absolute_error", "f32", "f64"}},
    };
  };
  registry.table<OpEntry>().add("absolute_error", std::move(entry));
}

}  // namespace belfry
