// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

#include <algorithm>
#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
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

constexpr std::size_t kLanes = 64;  // columns summed side by side, in registers or L1
constexpr std::size_t kRows = 256;  // rows summed in T before they go to double

// total[j] += the sum of up to kRows rows of `width` <= kLanes columns, `stride` apart.
template <class T>
void add_rows(const T* x, std::size_t rows, std::size_t width, std::size_t stride, double* total) {
  T lane[kLanes] = {};
  if (width == kLanes) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < kLanes; ++j) lane[j] += x[r * stride + j];
  } else {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < width; ++j) lane[j] += x[r * stride + j];
  }
  for (std::size_t j = 0; j < width; ++j) total[j] += static_cast<double>(lane[j]);
}

// Few columns: several rows side by side fill the lanes, so that the inner loop stays long.
template <class T>
void narrow_columns(const T* x, std::size_t rows, std::size_t columns, T* out) {
  const std::size_t fold = kLanes / columns, width = fold * columns, long_rows = rows / fold;
  double total[kLanes] = {};
  for (std::size_t r = 0; r < long_rows; r += kRows)
    add_rows(x + r * width, std::min(kRows, long_rows - r), width, width, total);
  for (std::size_t r = long_rows * fold; r < rows; ++r)
    add_rows(x + r * columns, 1, columns, columns, total);
  for (std::size_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::size_t f = 0; f < fold; ++f) sum += total[f * columns + c];
    out[c] = static_cast<T>(sum);
  }
}

template <class T>
void wide_columns(const T* x, std::size_t rows, std::size_t columns, T* out) {
  for (std::size_t c = 0; c < columns; c += kLanes) {
    const std::size_t width = std::min(kLanes, columns - c);
    double total[kLanes] = {};
    for (std::size_t r = 0; r < rows; r += kRows)
      add_rows(x + r * columns + c, std::min(kRows, rows - r), width, columns, total);
    for (std::size_t j = 0; j < width; ++j) out[c + j] = static_cast<T>(total[j]);
  }
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

void column_sum(const char* op, const Tensor& x, const Tensor& out) {
  const auto columns = static_cast<std::size_t>(out.size());
  if (columns == 0) return;
  const std::size_t rows = static_cast<std::size_t>(x.size()) / columns;
  with_float(op, x, [&](auto scalar) {
    using T = decltype(scalar);
    stream_of(x).run(Touches().reads(x.raw(), x.bytes()).writes(out.raw(), out.bytes()),
                     [x, out, rows, columns] {
                       if (columns <= kLanes / 2)
                         narrow_columns(x.data<T>(), rows, columns, out.data<T>());
                       else
                         wide_columns(x.data<T>(), rows, columns, out.data<T>());
                     });
  });
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
