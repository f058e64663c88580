// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

#include "belfry/autodiff/ops/reduce/sum.kernel.h"

namespace belfry {
namespace {

template <class T, class Blocks>
Tensor two_steps(const Tensor& x, double divisor, Blocks blocks_of) {
  const std::size_t blocks = sum_blocks(static_cast<std::size_t>(x.size()));
  Tensor partial = Tensor::empty({static_cast<std::int64_t>(blocks)}, x.dtype(), x.device());
  Tensor out = Tensor::empty({}, x.dtype(), x.device());
  launch_rows(stream_of(x), blocks, blocks_of(partial.data<T>()));
  launch_rows(stream_of(x), 1, FinalSum<T>{partial.data<T>(), blocks, out.data<T>(), divisor});
  return out;
}

}  // namespace

Tensor reduce_all(const Tensor& x, double divisor) {
  return with_float("sum", x, [&](auto scalar) {
    using T = decltype(scalar);
    const auto n = static_cast<std::size_t>(x.size());
    return two_steps<T>(x, divisor, [&](T* partial) {
      return BlockSum<T>{x.data<T>(), n, partial};
    });
  });
}

Tensor squared_error(const Tensor& a, const Tensor& b, double divisor) {
  return with_float("mse", a, [&](auto scalar) {
    using T = decltype(scalar);
    const auto n = static_cast<std::size_t>(a.size());
    return two_steps<T>(a, divisor, [&](T* partial) {
      return BlockSquaredError<T>{a.data<T>(), b.data<T>(), n, partial};
    });
  });
}

void spread_scalar(const Tensor& g, double divisor, const Tensor& dx) {
  with_float("sum", g, [&](auto scalar) {
    using T = decltype(scalar);
    launch_elements(stream_of(g), static_cast<std::size_t>(dx.size()),
                    SpreadScalar<T>{g.data<T>(), dx.data<T>(), static_cast<T>(divisor)});
  });
}

Tensor scalar_like(const Tensor& like, double value) {
  Tensor out = Tensor::empty({}, like.dtype(), like.device());
  with_float("scalar", like, [&](auto scalar) {
    using T = decltype(scalar);
    launch_elements(stream_of(like), 1, FillValue<T>{out.data<T>(), static_cast<T>(value)});
  });
  return out;
}

OpEntry reduction_entry(const char* help, Tensor (*op)(const Tensor&), bool mean) {
  OpEntry entry;
  entry.help = help;
  entry.cases = [op, mean] {
    std::vector<OpCase> cases;
    const auto add = [&](const char* label, const Shape& shape) {
      OpCase c;
      c.label = label;
      c.inputs = {sample(shape)};
      c.run = [op](std::span<const Tensor> in) { return op(in[0]); };
      c.reference = [mean](std::span<const std::vector<double>> in) {
        double total = 0;
        for (const double v : in[0]) total += v;
        return std::vector<double>{
            mean && !in[0].empty() ? total / static_cast<double>(in[0].size()) : total};
      };
      c.tolerance = 1e-5;  // terms of size 1 that cancel
      cases.push_back(std::move(c));
    };
    add("normal", {4, 16});
    add("odd", {3, 5, 7});
    add("several blocks", {3, 2999});
    add("one element", {1});
    add("empty", {0, 3});
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
