// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/activate_internal.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/elementwise/activations.kernel.h"
#include "belfry/autodiff/ops/elementwise/binary.kernel.h"

namespace belfry {
namespace {

// Calls f with the formulas of an activation.
template <class F>
void with_math(Activation activation, F&& f) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return f(ReluMath{});
    case Activation::tanh:
      return f(TanhMath{});
    case Activation::sigmoid:
      return f(SigmoidMath{});
    case Activation::gelu:
      return f(GeluMath{});
  }
}

}  // namespace

bool saves_input(Activation f) noexcept {
  bool saves = false;
  with_math(f, [&](auto math) { saves = decltype(math)::kSavesInput; });
  return saves;
}

void activate(Activation f, const Tensor& x, const Tensor& y) {
  with_float("activation", x, [&](auto scalar) {
    using T = decltype(scalar);
    with_math(f, [&](auto math) {
      launch_elements(stream_of(x), static_cast<std::size_t>(x.size()),
                      ActivationForward<T, decltype(math)>{x.data<T>(), y.data<T>()});
    });
  });
}

void activate_backward(Activation f, const Tensor& g, const Tensor& saved, const Tensor& dx) {
  with_float("activation", g, [&](auto scalar) {
    using T = decltype(scalar);
    with_math(f, [&](auto math) {
      launch_elements(
          stream_of(g), static_cast<std::size_t>(g.size()),
          ActivationBackward<T, decltype(math)>{g.data<T>(), saved.data<T>(), dx.data<T>()});
    });
  });
}

void activate_keeping_slope(Activation f, const Tensor& x, const Tensor& y) {
  if (f != Activation::gelu)
    throw_op("activation", "no pass that keeps the slope", std::string(name_of(f)), "gelu");
  with_float("activation", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_elements(stream_of(x), static_cast<std::size_t>(x.size()),
                    GeluBoth<T>{x.data<T>(), y.data<T>(), x.data<T>()});
  });
}

void scale_by_slope(const Tensor& g, const Tensor& slope, const Tensor& dx) {
  with_float("activation", g, [&](auto scalar) {
    using T = decltype(scalar);
    launch_elements(stream_of(g), static_cast<std::size_t>(g.size()),
                    BinarySame<T, MulMath>{g.data<T>(), slope.data<T>(), dx.data<T>()});
  });
}

Tensor activation_op(Activation f, const Tensor& x) {
  const char* op = name_of(f).data();  // names are literals
  require_float(op, x);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  activate(f, x, y);
  const Tensor saved = saves_input(f) ? x : y;
  return recorded(
      op, std::move(y),
      [f, saved](Backward& b) { activate_backward(f, b.grad(), saved, b.into_in_place(0)); }, x);
}

OpEntry activation_entry(const char* help, Tensor (*op)(const Tensor&), double (*formula)(double)) {
  OpEntry entry;
  entry.help = help;
  entry.cases = [op, formula] {
    std::vector<OpCase> cases;
    const auto add = [&](const char* label, const Shape& shape, double limit) {
      OpCase c;
      c.label = label;
      c.inputs = {sample(shape, limit)};
      c.run = [op](std::span<const Tensor> in) { return op(in[0]); };
      c.reference = [formula](std::span<const std::vector<double>> in) {
        std::vector<double> out;
        for (const double v : in[0]) out.push_back(formula(v));
        return out;
      };
      cases.push_back(std::move(c));
    };
    add("normal", {4, 16}, 2.0);
    add("odd", {3, 5, 7}, 4.0);
    add("one element", {1}, 1.0);
    add("scalar", {}, 1.0);
    add("empty", {0, 3}, 1.0);
    return cases;
  };
  entry.misuses = [op] {
    return std::vector<OpMisuse>{
        {"integers", [op](Device& d) { op(Tensor::zeros({2}, DType::i32, d)); }, {"i32"}},
    };
  };
  return entry;
}

}  // namespace belfry
