// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// sum = the sum of |a - b|, weight = n. One row.
template <class T>
struct SumAbsoluteError {
  static constexpr const char* name =
      kernel_name<T>("sum_absolute_error_f32", "sum_absolute_error_f64");
  const T* a;
  const T* b;
  std::size_t n;
  T* sum;
  T* weight;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const T *p = a, *q = b;
    const double total = team.template sum<double>(n, [p, q](std::size_t i) {
      const T d = p[i] - q[i];
      return static_cast<double>(d < 0 ? -d : d);
    });
    sum[0] = static_cast<T>(total);
    weight[0] = static_cast<T>(n);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(a, n * sizeof(T)).reads(b, n * sizeof(T));
    t.writes(sum, sizeof(T)).writes(weight, sizeof(T));
  }
};

template <class Table>
void kernels_of_absolute_error(Table& table) {
  table.template rows<SumAbsoluteError<float>>();
}

}  // namespace belfry
