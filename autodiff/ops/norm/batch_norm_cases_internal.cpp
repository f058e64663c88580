// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/norm/batch_norm_cases_internal.h"

#include <cmath>

#include "belfry/autodiff/ops/norm/batch_norm.h"

namespace belfry {
namespace {

struct Form {
  bool given = false;  // statistics are inputs
  bool residual = false;
  bool relu = false;
  double shift = 0;  // of all inputs
};

// As f32 holds it.
double rounded(double v) { return static_cast<double>(static_cast<float>(v)); }

// Two passes over each channel, in double.
std::vector<double> reference(std::int64_t channels, const Form& form,
                              std::span<const std::vector<double>> v) {
  const std::vector<double>& x = v[0];
  const auto n = static_cast<std::size_t>(channels);
  const std::size_t rows = x.size() / n;
  std::vector<double> y(x.size());
  for (std::size_t c = 0; c < n; ++c) {
    double mean = 0, variance = 0;
    for (std::size_t r = 0; r < rows; ++r) mean += x[r * n + c] / static_cast<double>(rows);
    for (std::size_t r = 0; r < rows; ++r)
      variance += std::pow(x[r * n + c] - mean, 2) / static_cast<double>(rows);
    if (form.given) mean = v[v.size() - 2][c], variance = v[v.size() - 1][c];
    for (std::size_t i = c; i < x.size(); i += n) {
      y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * v[1][c] + v[2][c];
      if (form.residual) y[i] += v[3][i];
      if (form.relu && y[i] < 0) y[i] = 0;
    }
  }
  return y;
}

OpCase make(const char* label, const Shape& shape, const Form& form = {}) {
  const std::int64_t channels = shape[-1];
  OpCase c;
  c.label = label;
  c.inputs = {sample(shape, 2.0), sample({channels}, 1.0, 2), sample({channels}, 0.5, 3)};
  for (double& x : c.inputs[0].values) x = rounded(x + form.shift);
  if (form.residual) c.inputs.push_back(sample(shape, 1.0, 4));
  if (form.given) {
    c.inputs.push_back(sample({channels}, 0.5, 5));
    c.inputs.push_back(sample({channels}, 0.5, 6));
    for (double& variance : c.inputs.back().values) variance = rounded(0.25 + variance * variance);
    for (std::size_t k = c.inputs.size() - 2; k < c.inputs.size(); ++k)
      c.inputs[k].differentiable = false;
  }
  c.run = [form](std::span<const Tensor> t) {
    const Tensor residual = form.residual ? t[3] : Tensor();
    const BatchNormOptions options{.relu = form.relu};
    if (!form.given) return batch_norm(t[0], t[1], t[2], residual, options);
    const auto like = [&t](const Tensor& s) {
      return Tensor::from(s.to_vector(), s.shape(), t[0].dtype(), t[0].device());
    };
    return batch_norm_given(t[0], t[1], t[2], residual, like(t[t.size() - 2]),
                            like(t[t.size() - 1]), options);
  };
  c.reference = [channels, form](std::span<const std::vector<double>> v) {
    return reference(channels, form, v);
  };
  return c;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> out{
      make("normal", {4, 3, 3, 16}),
      make("rows", {37, 10}),
      make("relu", {3, 5, 5, 7}, {.relu = true}),
      make("residual", {2, 4, 4, 5}, {.residual = true}),
      make("residual and relu", {2, 4, 5, 16}, {.residual = true, .relu = true}),
      make("given statistics", {2, 3, 3, 5}, {.given = true}),
      make("given statistics, residual and relu", {2, 3, 3, 5},
           {.given = true, .residual = true, .relu = true}),
      make("more channels than lanes", {5, 2, 1, 150}, {.relu = true}),
      make("one channel, several blocks", {40, 30, 30, 1}, {.relu = true}),
      make("several blocks", {1100, 100}, {.residual = true, .relu = true}),
      make("two rows", {2, 3}),
      make("a mean far from 0", {50, 3}, {.shift = 100}),
      make("one element, given statistics", {1, 1}, {.given = true}),
      make("empty, given statistics", {0, 2, 2, 3}, {.given = true, .relu = true}),
  };
  for (OpCase& c : out) {
    if (c.inputs[0].shape.size() > 10000) c.tolerance = 1e-5;
    if (c.label == "two rows") c.tolerance = 1e-4;           // the variance may be small
    if (c.label == "a mean far from 0") c.tolerance = 1e-5;  // as exact as f32 inputs are
  }
  return out;
}

std::vector<OpMisuse> misuses() {
  const auto call = [](const Shape& x, std::int64_t weight, std::int64_t bias,
                       const Shape& residual = {}, DType type = DType::f32, double eps = 1e-5) {
    return [=](Device& d) {
      const auto zeros = [&d](const Shape& s) { return Tensor::zeros(s, DType::f32, d); };
      batch_norm(Tensor::zeros(x, type, d), zeros({weight}), zeros({bias}),
                 residual.rank() == 0 ? Tensor() : zeros(residual), {.eps = eps});
    };
  };
  const auto given = [](std::int64_t mean, std::int64_t variance) {
    return [=](Device& d) {
      const auto zeros = [&d](const Shape& s) { return Tensor::zeros(s, DType::f32, d); };
      batch_norm_given(zeros({2, 3}), zeros({3}), zeros({3}), {}, zeros({mean}), zeros({variance}));
    };
  };
  return {
      {"rank", call({4}, 4, 4), {"batch_norm", "input", "[4]"}},
      {"integers", call({4, 2}, 2, 2, {}, DType::i32), {"batch_norm", "i32"}},
      {"types", call({4, 2}, 2, 2, {}, DType::f64), {"batch_norm", "weight", "f64"}},
      {"weight", call({4, 2}, 3, 2), {"batch_norm", "weight", "[3]", "[2]"}},
      {"bias", call({4, 2}, 2, 3), {"batch_norm", "bias", "[3]", "[2]"}},
      {"residual", call({4, 2}, 2, 2, {4, 3}), {"batch_norm", "residual", "[4, 3]", "[4, 2]"}},
      {"no channels", call({4, 0}, 0, 0), {"batch_norm", "[4, 0]"}},
      {"one value", call({1, 1, 1, 5}, 5, 5), {"batch_norm", "1 a channel", "at least 2"}},
      {"no rows", call({0, 5}, 5, 5), {"batch_norm", "0 a channel", "[0, 5]"}},
      {"eps", call({4, 2}, 2, 2, {}, DType::f32, 0), {"batch_norm", "eps", "0.0"}},
      {"given mean", given(2, 3), {"batch_norm", "mean", "[2]", "[3]"}},
      {"given variance", given(3, 2), {"batch_norm", "variance", "[2]", "[3]"}},
  };
}

}  // namespace

OpEntry batch_norm_entry() {
  OpEntry entry;
  entry.help = "batch normalisation of channels, with residual and ReLU";
  entry.cases = cases;
  entry.misuses = misuses;
  return entry;
}

}  // namespace belfry
