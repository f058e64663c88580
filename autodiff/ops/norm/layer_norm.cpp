// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/norm/layer_norm.h"

#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/norm/layer_norm.kernel.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_float("layer_norm", x);
  require_rank_at_least("layer_norm", x, 1, "input");
  const std::int64_t columns = x.shape()[-1];
  if (columns < 1) throw_op("layer_norm", "no columns", x.shape().text(), "at least 1");
  require_like("layer_norm", x, weight, "weight");
  require_shape("layer_norm", weight, {columns}, "weight");
  require_like("layer_norm", x, bias, "bias");
  require_shape("layer_norm", bias, {columns}, "bias");
  if (!(eps >= 0 && std::isfinite(eps)))
    throw_op("layer_norm", "eps is out of range", std::to_string(eps), "a number of at least 0");
}

struct Saved {
  Tensor x, weight, mean, scale;
};

template <class T>
void backward(Backward& b, const Saved& s) {
  const auto columns = static_cast<std::size_t>(s.weight.size());
  const std::size_t rows = static_cast<std::size_t>(s.x.size()) / columns;
  const std::size_t blocks = (rows + kNormRows - 1) / kNormRows;
  const Shape sums{static_cast<std::int64_t>(blocks), s.weight.size()};
  const Tensor dweight = Tensor::empty(sums, s.x.dtype(), s.x.device()),
               dbias = Tensor::empty(sums, s.x.dtype(), s.x.device());
  const T* const g = b.grad().data<T>();
  const Tensor dx = b.wants(0) ? b.into_in_place(0) : Tensor();
  launch_rows(stream_of(s.x), blocks,
              LayerNormBackward<T>{s.x.data<T>(), g, s.weight.data<T>(), s.mean.data<T>(),
                                   s.scale.data<T>(), dx.defined() ? dx.data<T>() : nullptr,
                                   dweight.data<T>(), dbias.data<T>(), rows, columns});
  if (b.wants(1)) column_sum("layer_norm", dweight, b.into(1));
  if (b.wants(2)) column_sum("layer_norm", dbias, b.into(2));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check(x, weight, bias, eps);
  const auto columns = static_cast<std::size_t>(x.shape()[-1]);
  const std::size_t rows = static_cast<std::size_t>(x.size()) / columns;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Shape one_a_row{static_cast<std::int64_t>(rows)};
  Saved saved{x.detach(), weight.detach(), Tensor::empty(one_a_row, x.dtype(), x.device()),
              Tensor::empty(one_a_row, x.dtype(), x.device())};
  return with_float("layer_norm", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(
        stream_of(x), rows,
        LayerNormRow<T>{x.data<T>(), weight.data<T>(), bias.data<T>(), y.data<T>(),
                        saved.mean.data<T>(), saved.scale.data<T>(), columns, static_cast<T>(eps)});
    return recorded(
        "layer_norm", std::move(y), [saved](Backward& b) { backward<T>(b, saved); }, x, weight,
        bias);
  });
}

namespace {

OpCase norm_case(const char* label, const Shape& shape, double offset = 0) {
  OpCase c;
  c.label = label;
  const std::int64_t n = shape[-1];
  c.inputs = {sample(shape), sample({n}, 1, 2), sample({n}, 1, 3)};
  for (double& v : c.inputs[0].values) v = static_cast<double>(static_cast<float>(v + offset));
  c.run = [](std::span<const Tensor> t) { return layer_norm(t[0], t[1], t[2]); };
  c.reference = [n](std::span<const std::vector<double>> v) {
    const auto columns = static_cast<std::size_t>(n);
    std::vector<double> y;
    for (std::size_t r = 0; r < v[0].size(); r += columns) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < columns; ++i) mean += v[0][r + i] / static_cast<double>(n);
      for (std::size_t i = 0; i < columns; ++i)
        variance += (v[0][r + i] - mean) * (v[0][r + i] - mean) / static_cast<double>(n);
      for (std::size_t i = 0; i < columns; ++i)
        y.push_back((v[0][r + i] - mean) / std::sqrt(variance + 1e-5) * v[1][i] + v[2][i]);
    }
    return y;
  };
  return c;
}

std::vector<OpMisuse> misuses() {
  const auto call = [](const Shape& x, const Shape& w, const Shape& b, double eps = 1e-5,
                       DType type = DType::f32) {
    return [=](Device& d) {
      layer_norm(Tensor::zeros(x, DType::f32, d), Tensor::zeros(w, type, d),
                 Tensor::zeros(b, DType::f32, d), eps);
    };
  };
  return {
      {"weight", call({2, 3}, {4}, {3}), {"layer_norm", "weight", "[4]", "[3]"}},
      {"bias", call({2, 3}, {3}, {3, 1}), {"layer_norm", "bias", "[3, 1]", "[3]"}},
      {"scalar", call({}, {1}, {1}), {"layer_norm", "input", "[]"}},
      {"no columns", call({2, 0}, {0}, {0}), {"layer_norm", "no columns", "[2, 0]"}},
      {"types", call({2, 3}, {3}, {3}, 1e-5, DType::f64), {"weight", "f64", "f32"}},
      {"eps", call({2, 3}, {3}, {3}, -1), {"layer_norm", "eps"}},
  };
}

}  // namespace

void register_op_layer_norm(Registry& registry) {
  OpEntry entry;
  entry.help = "(x - mean) / sqrt(variance + eps) weight + bias along the last axis";
  entry.cases = [] {
    OpCase large = norm_case("large offset", {5, 131}, 1000);
    large.smooth = false;  // differences of f64 at 1000 lose what the check needs
    return std::vector<OpCase>{
        norm_case("normal", {8, 16}), norm_case("odd", {3, 5, 7}),
        norm_case("wide", {3, 200}),  norm_case("several blocks", {70, 9}),
        norm_case("vector", {13}),    norm_case("one element", {1, 1}),
        norm_case("empty", {0, 7}),   std::move(large),
    };
  };
  entry.misuses = misuses;
  registry.table<OpEntry>().add("layer_norm", std::move(entry));
}

}  // namespace belfry
