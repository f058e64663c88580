// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

// Sums of a whole array in two steps: blocks of kSumBlock elements in the array's type (64 lanes of
// 64 terms), then the blocks in double. The order depends on the size alone.
namespace belfry {

inline constexpr std::size_t kSumBlock = 4096;
inline std::size_t sum_blocks(std::size_t n) { return (n + kSumBlock - 1) / kSumBlock; }

// partial[b] = sum of block b.
template <class T>
struct BlockSum {
  static constexpr const char* name = kernel_name<T>("block_sum_f32", "block_sum_f64");
  const T* x;
  std::size_t n;
  T* partial;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t b) const {
    const T* p = x + b * kSumBlock;
    const std::size_t count = n - b * kSumBlock < kSumBlock ? n - b * kSumBlock : kSumBlock;
    partial[b] = team.template sum<T>(count, [p](std::size_t i) { return p[i]; });
  }
  void touches(Touches& t, std::size_t blocks) const {
    t.reads(x, n * sizeof(T)).writes(partial, blocks * sizeof(T));
  }
};

// partial[b] = sum of (a - b)^2 over block b.
template <class T>
struct BlockSquaredError {
  static constexpr const char* name =
      kernel_name<T>("block_squared_error_f32", "block_squared_error_f64");
  const T* a;
  const T* b;
  std::size_t n;
  T* partial;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    const T *p = a + block * kSumBlock, *q = b + block * kSumBlock;
    const std::size_t count = n - block * kSumBlock < kSumBlock ? n - block * kSumBlock : kSumBlock;
    partial[block] = team.template sum<T>(
        count, [p, q](std::size_t i) { return (p[i] - q[i]) * (p[i] - q[i]); });
  }
  void touches(Touches& t, std::size_t blocks) const {
    t.reads(a, n * sizeof(T)).reads(b, n * sizeof(T)).writes(partial, blocks * sizeof(T));
  }
};

// out = (sum of the partials) / divisor; one row.
template <class T>
struct FinalSum {
  static constexpr const char* name = kernel_name<T>("final_sum_f32", "final_sum_f64");
  const T* partial;
  std::size_t blocks;
  T* out;
  double divisor;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const T* p = partial;
    const double total =
        team.template sum<double>(blocks, [p](std::size_t i) { return static_cast<double>(p[i]); });
    out[0] = static_cast<T>(total / divisor);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(partial, blocks * sizeof(T)).writes(out, sizeof(T));
  }
};

// y = g[0] / divisor everywhere: the gradient of sums and means.
template <class T>
struct SpreadScalar {
  static constexpr const char* name = kernel_name<T>("spread_scalar_f32", "spread_scalar_f64");
  const T* g;
  T* y;
  T divisor;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = g[0] / divisor; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.writes(y);
  }
  void touches(Touches& t, std::size_t n) const { t.reads(g, sizeof(T)).writes(y, n * sizeof(T)); }
};

// y = value everywhere.
template <class T>
struct FillValue {
  static constexpr const char* name = kernel_name<T>("fill_value_f32", "fill_value_f64");
  T* y;
  T value;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = value; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.writes(y);
  }
  void touches(Touches& t, std::size_t n) const { t.writes(y, n * sizeof(T)); }
};

template <class Table>
void kernels_of_sum(Table& table) {
  table.template rows<BlockSum<float>>();
  table.template rows<BlockSquaredError<float>>();
  table.template rows<FinalSum<float>>();
  table.template elements<SpreadScalar<float>>();
  table.template elements<FillValue<float>>();
}

}  // namespace belfry
