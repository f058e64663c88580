// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row r of y [batch, n, m] gathers a column of x [batch, m, n].
template <class T>
struct TransposeRow {
  static constexpr const char* name = kernel_name<T>("transpose_f32", "transpose_f64");
  const T* x;
  T* y;
  std::size_t m, n;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* column = x + (row / n) * m * n + row % n;
    T* out = y + row * m;
    const std::size_t stride = n;
    team.each(m, [=](std::size_t i) { out[i] = column[i * stride]; });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, rows * m * sizeof(T)).writes(y, rows * m * sizeof(T));
  }
};

template <class Table>
void kernels_of_transpose(Table& table) {
  table.template rows<TransposeRow<float>>();
}

}  // namespace belfry
