// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row r: `width` elements from r * from_stride to r * to_stride: what slices and joins are made of.
template <class T>
struct StridedCopy {
  static constexpr const char* name = kernel_name<T>("strided_copy_f32", "strided_copy_f64");
  const T* from;
  T* to;
  std::size_t from_stride, to_stride, width;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* x = from + row * from_stride;
    T* y = to + row * to_stride;
    team.each(width, [=](std::size_t i) { y[i] = x[i]; });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(from, ((rows - 1) * from_stride + width) * sizeof(T));
    t.writes(to, ((rows - 1) * to_stride + width) * sizeof(T));
  }
};

template <class Table>
void kernels_of_strided_copy(Table& table) {
  table.template rows<StridedCopy<float>>();
}

}  // namespace belfry
