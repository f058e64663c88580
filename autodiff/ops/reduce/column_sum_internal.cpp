// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/autodiff/ops/reduce/column_sum_call.h"
#include "belfry/autodiff/ops/reduce/reduce_internal.h"

namespace belfry {
namespace {

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

template <class T>
void ColumnSumCall<T>::operator()(HostTeam&, std::size_t) const {
  if (columns <= kLanes / 2)
    narrow_columns(x, rows, columns, out);
  else
    wide_columns(x, rows, columns, out);
}
template struct ColumnSumCall<float>;
template struct ColumnSumCall<double>;

void column_sum(const char* op, const Tensor& x, const Tensor& out) {
  const auto columns = static_cast<std::size_t>(out.size());
  if (columns == 0) return;
  const std::size_t rows = static_cast<std::size_t>(x.size()) / columns;
  with_float(op, x, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(x), 1, ColumnSumCall<T>{x.data<T>(), out.data<T>(), rows, columns});
  });
}

}  // namespace belfry
