// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/binary_internal.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/elementwise/binary.kernel.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {
namespace {

template <class F>
void with_math(Binary kind, F&& f) {
  switch (kind) {
    case Binary::add:
      return f(AddMath{});
    case Binary::sub:
      return f(SubMath{});
    case Binary::mul:
      return f(MulMath{});
  }
}

// y = a op b with b repeated as needed; y may be a.
void apply(Binary kind, const Tensor& a, const Tensor& b, const Tensor& y) {
  with_float("binary", a, [&](auto scalar) {
    using T = decltype(scalar);
    with_math(kind, [&](auto math) {
      using Math = decltype(math);
      Stream& stream = stream_of(a);
      const auto n = static_cast<std::size_t>(a.size());
      if (n == 0) return;
      if (a.shape() == b.shape())
        return launch_elements(stream, n,
                               BinarySame<T, Math>{a.data<T>(), b.data<T>(), y.data<T>()});
      const auto columns = static_cast<std::size_t>(a.shape()[-1]);
      launch_rows(stream, n / columns,
                  BinaryRows<T, Math>{a.data<T>(), b.data<T>(), y.data<T>(), columns,
                                      b.size() == 1 ? 0u : 1u});
    });
  });
}

void negate(const Tensor& x, const Tensor& y) {
  with_float("negate", x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_elements(stream_of(x), static_cast<std::size_t>(x.size()),
                    Negate<T>{x.data<T>(), y.data<T>()});
  });
}

void backward_sum(const char* op, Backward& g, bool same, bool negative) {
  if (g.wants(1)) {
    if (!same) {
      const Tensor db = g.into(1);
      column_sum(op, g.grad(), db);
      if (negative) negate(db, db);
    } else if (negative) {
      negate(g.grad(), g.into(1));
    } else {
      g.give(1, g.grad());  // shared by both: who writes in place looks whether it is alone
    }
  }
  if (g.wants(0)) g.give(0, g.grad());
}

void backward_mul(const char* op, Backward& g, const Tensor& a, const Tensor& b) {
  const bool same = a.shape() == b.shape();
  if (g.wants(1)) {
    const Tensor db = g.into(1);
    if (same) {
      apply(Binary::mul, g.grad(), a, db);
    } else {
      const Tensor product = Tensor::empty(a.shape(), a.dtype(), a.device());
      apply(Binary::mul, g.grad(), a, product);
      column_sum(op, product, db);
    }
  }
  if (g.wants(0)) apply(Binary::mul, g.grad(), b, g.into_in_place(0));
}

void check(const char* op, const Tensor& a, const Tensor& b) {
  require_float(op, a);
  require_like(op, a, b, "second operand");
  if (a.shape() == b.shape() || b.shape().rank() == 0) return;
  if (b.shape().rank() == 1 && a.shape().rank() > 0 && b.shape()[0] == a.shape()[-1]) return;
  throw_op(op, "shapes do not fit", a.shape().text() + " and " + b.shape().text(),
           "equal shapes, or a second operand of the last extent or one element");
}

}  // namespace

Tensor binary_op(const char* op, Binary kind, const Tensor& a, const Tensor& b) {
  check(op, a, b);
  Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  apply(kind, a, b, y);
  if (kind == Binary::mul)
    return recorded(
        op, std::move(y),
        [op, x = a.detach(), z = b.detach()](Backward& g) { backward_mul(op, g, x, z); }, a, b);
  const bool same = a.shape() == b.shape(), negative = kind == Binary::sub;
  return recorded(
      op, std::move(y), [op, same, negative](Backward& g) { backward_sum(op, g, same, negative); },
      a, b);
}

OpEntry binary_entry(const char* help, const char* name, Tensor (*op)(const Tensor&, const Tensor&),
                     double (*formula)(double, double)) {
  OpEntry entry;
  entry.help = help;
  entry.cases = [op, formula] {
    std::vector<OpCase> cases;
    const auto add = [&](const char* label, const Shape& a, const Shape& b) {
      OpCase c;
      c.label = label;
      c.inputs = {sample(a), sample(b, 1.0, 2)};
      c.run = [op](std::span<const Tensor> t) { return op(t[0], t[1]); };
      c.reference = [formula](std::span<const std::vector<double>> v) {
        std::vector<double> y;
        for (std::size_t i = 0; i < v[0].size(); ++i)
          y.push_back(formula(v[0][i], v[1][i % v[1].size()]));
        return y;
      };
      cases.push_back(std::move(c));
    };
    add("normal", {4, 16}, {4, 16});
    add("odd", {3, 5, 7}, {3, 5, 7});
    add("row repeated", {3, 5, 7}, {7});
    add("wide row repeated", {5, 67}, {67});
    add("scalar repeated", {3, 5, 7}, {});
    add("one element", {1}, {1});
    add("scalars", {}, {});
    add("empty", {0, 3}, {0, 3});
    add("empty, row repeated", {0, 3}, {3});
    return cases;
  };
  entry.misuses = [op, name] {
    const auto call = [op](const Shape& a, const Shape& b, DType type) {
      return [=](Device& d) { op(Tensor::zeros(a, DType::f32, d), Tensor::zeros(b, type, d)); };
    };
    return std::vector<OpMisuse>{
        {"shapes", call({4, 3}, {4}, DType::f32), {name, "[4, 3]", "[4]"}},
        {"first operand repeated", call({3}, {4, 3}, DType::f32), {name, "[3]", "[4, 3]"}},
        {"types", call({4}, {4}, DType::f64), {name, "f32", "f64"}},
        {"integers",
         [op](Device& d) {
           op(Tensor::zeros({4}, DType::i32, d), Tensor::zeros({4}, DType::i32, d));
         },
         {name, "i32"}},
    };
  };
  return entry;
}

}  // namespace belfry
