// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

struct AddMath {
  static constexpr const char* kSame[2] = {"add_f32", "add_f64"};
  static constexpr const char* kRows[2] = {"add_rows_f32", "add_rows_f64"};
  template <class T>
  BELFRY_HD static T value(T a, T b) {
    return a + b;
  }
};
struct SubMath {
  static constexpr const char* kSame[2] = {"sub_f32", "sub_f64"};
  static constexpr const char* kRows[2] = {"sub_rows_f32", "sub_rows_f64"};
  template <class T>
  BELFRY_HD static T value(T a, T b) {
    return a - b;
  }
};
struct MulMath {
  static constexpr const char* kSame[2] = {"mul_f32", "mul_f64"};
  static constexpr const char* kRows[2] = {"mul_rows_f32", "mul_rows_f64"};
  template <class T>
  BELFRY_HD static T value(T a, T b) {
    return a * b;
  }
};

// y = a op b; y may be a or b.
template <class T, class Math>
struct BinarySame {
  static constexpr const char* name = kernel_name<T>(Math::kSame[0], Math::kSame[1]);
  const T* a;
  const T* b;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = Math::value(a[i], b[i]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(a).reads(b).writes(y);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(a, n * sizeof(T)).reads(b, n * sizeof(T)).writes(y, n * sizeof(T));
  }
};

// y = a op b[0]; y may be a.
template <class T, class Math>
struct BinaryScalar {
  const T* a;
  const T* b;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = Math::value(a[i], b[0]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(a).writes(y);
  }
};

// y[r, c] = a[r, c] op b[c], or op b[0] when b_step is 0; y may be a.
template <class T, class Math>
struct BinaryRows {
  static constexpr const char* name = kernel_name<T>(Math::kRows[0], Math::kRows[1]);
  const T* a;
  const T* b;
  T* y;
  std::size_t columns, b_step;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* p = a + row * columns;
    T* out = y + row * columns;
    if (b_step == 0)
      team.each(columns, BinaryScalar<T, Math>{p, b, out});
    else
      team.each(columns, BinarySame<T, Math>{p, b, out});
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(a, rows * columns * sizeof(T)).reads(b, (b_step == 0 ? 1 : columns) * sizeof(T));
    t.writes(y, rows * columns * sizeof(T));
  }
};

// y = -x; y may be x.
template <class T>
struct Negate {
  static constexpr const char* name = kernel_name<T>("negate_f32", "negate_f64");
  const T* x;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = -x[i]; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(y);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(T)).writes(y, n * sizeof(T));
  }
};

template <class Table>
void kernels_of_binary(Table& table) {
  table.template elements<BinarySame<float, AddMath>>();
  table.template rows<BinaryRows<float, AddMath>>();
  table.template elements<BinarySame<float, SubMath>>();
  table.template rows<BinaryRows<float, SubMath>>();
  table.template elements<BinarySame<float, MulMath>>();
  table.template rows<BinaryRows<float, MulMath>>();
  table.template elements<Negate<float>>();
}

}  // namespace belfry
