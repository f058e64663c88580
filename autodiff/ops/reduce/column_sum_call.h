// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/kernel.h"

namespace belfry {

// out[c] = sum over r of x[r, c], as one row: here the host's loops, which read x once, row by row.
// Other backends register theirs, made for many blocks, under the same name. There may be no rows.
template <class T>
struct ColumnSumCall {
  static constexpr const char* name = kernel_name<T>("column_sum_f32", "column_sum_f64");
  const T* x;
  T* out;
  std::size_t rows, columns;
  void operator()(HostTeam& team, std::size_t row) const;
  void touches(Touches& t, std::size_t) const {
    t.reads(x, rows * columns * sizeof(T)).writes(out, columns * sizeof(T));
  }
};

}  // namespace belfry
