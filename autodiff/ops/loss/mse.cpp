// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/loss/mse.h"

#include <algorithm>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/mse.kernel.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {
namespace {

// d mean / d a = 2 (a - b) / count, and the opposite for b: the same kernel with a and b exchanged.
void backward(Backward& g, const Tensor& a, const Tensor& b) {
  with_float("mse", a, [&](auto scalar) {
    using T = decltype(scalar);
    const T factor = static_cast<T>(2.0 / static_cast<double>(std::max<std::int64_t>(a.size(), 1)));
    const auto launch = [&](const Tensor& p, const Tensor& q, const Tensor& to) {
      launch_elements(
          stream_of(p), static_cast<std::size_t>(p.size()),
          MseBackward<T>{p.data<T>(), q.data<T>(), g.grad().data<T>(), to.data<T>(), factor});
    };
    if (g.wants(0)) launch(a, b, g.into(0));
    if (g.wants(1)) launch(b, a, g.into(1));
  });
}

}  // namespace

Loss mse(const Tensor& prediction, const Tensor& target) {
  require_float("mse", prediction);
  require_same("mse", prediction, target);
  const auto count = static_cast<double>(std::max<std::int64_t>(prediction.size(), 1));
  const Shape& shape = prediction.shape();
  const std::int64_t rows = prediction.size() == 0 ? 0 : shape.rank() == 0 ? 1 : shape[0];
  Loss loss{squared_error(prediction, target, count),
            scalar_like(prediction, static_cast<double>(rows))};
  loss.mean = recorded(
      "mse", std::move(loss.mean),
      [a = prediction.detach(), b = target.detach()](Backward& g) { backward(g, a, b); },
      prediction, target);
  return loss;
}

namespace {

OpCase mse_case(const char* label, const Shape& shape) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape), sample(shape, 1.0, 2)};
  c.run = [](std::span<const Tensor> t) { return mse(t[0], t[1]).mean; };
  c.reference = [](std::span<const std::vector<double>> v) {
    double total = 0;
    for (std::size_t i = 0; i < v[0].size(); ++i)
      total += (v[0][i] - v[1][i]) * (v[0][i] - v[1][i]);
    return std::vector<double>{v[0].empty() ? 0 : total / static_cast<double>(v[0].size())};
  };
  return c;
}

}  // namespace

void register_op_mse(Registry& registry) {
  OpEntry entry;
  entry.help = "mean squared error; the weight counts rows";
  entry.cases = [] {
    return std::vector<OpCase>{mse_case("normal", {8, 16}),   mse_case("odd", {3, 5, 7}),
                               mse_case("blocks", {5, 1999}), mse_case("one element", {1}),
                               mse_case("scalar", Shape{}),   mse_case("empty", {0, 4})};
  };
  entry.misuses = [] {
    const auto call = [](const Shape& a, const Shape& b, DType type) {
      return [=](Device& d) { mse(Tensor::zeros(a, DType::f32, d), Tensor::zeros(b, type, d)); };
    };
    return std::vector<OpMisuse>{
        {"shapes", call({4, 1}, {4}, DType::f32), {"mse", "[4, 1]", "[4]"}},
        {"types", call({4}, {4}, DType::f64), {"mse", "f32", "f64"}},
    };
  };
  registry.table<OpEntry>().add("mse", std::move(entry));
}

}  // namespace belfry
