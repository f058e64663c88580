// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/norm/softmax_row.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// One row: y = e^(x - max) / sum.
template <class T>
struct SoftmaxRow {
  static constexpr const char* name = kernel_name<T>("softmax_f32", "softmax_f64");
  const T* x;
  T* y;
  std::size_t columns;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    softmax_row<T>(team, x + row * columns, y + row * columns, columns);
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, rows * columns * sizeof(T)).writes(y, rows * columns * sizeof(T));
  }
};

// dx = y (g - sum of g y); dx may be g.
template <class T>
struct SoftmaxBackwardRow {
  static constexpr const char* name =
      kernel_name<T>("softmax_backward_f32", "softmax_backward_f64");
  const T* y;
  const T* g;
  T* dx;
  std::size_t columns;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T *p = y + row * columns, *q = g + row * columns;
    T* out = dx + row * columns;
    const T dot = team.template sum<T>(columns, [p, q](std::size_t c) { return p[c] * q[c]; });
    team.each(columns, [=](std::size_t c) { out[c] = p[c] * (q[c] - dot); });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(y, rows * columns * sizeof(T)).reads(g, rows * columns * sizeof(T));
    t.writes(dx, rows * columns * sizeof(T));
  }
};

template <class Table>
void kernels_of_softmax(Table& table) {
  table.template rows<SoftmaxRow<float>>();
  table.template rows<SoftmaxBackwardRow<float>>();
}

}  // namespace belfry
