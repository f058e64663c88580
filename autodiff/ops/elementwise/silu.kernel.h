// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// y = x s, s = sigmoid(x)
template <class T>
struct SiluForward {
  static constexpr const char* name = kernel_name<T>("silu_f32", "silu_f64");
  const T* x;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = x[i] * sigmoid_of(x[i]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(y);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(T)).writes(y, n * sizeof(T));
  }
};

// dx = g s (1 + x (1 - s)); dx may be g.
template <class T>
struct SiluBackward {
  static constexpr const char* name = kernel_name<T>("silu_backward_f32", "silu_backward_f64");
  const T* x;
  const T* g;
  T* dx;
  BELFRY_HD void operator()(std::size_t i) const {
    const T s = sigmoid_of(x[i]);
    dx[i] = g[i] * s * (T(1) + x[i] * (T(1) - s));
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).reads(g).writes(dx);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(T)).reads(g, n * sizeof(T)).writes(dx, n * sizeof(T));
  }
};

template <class Table>
void kernels_of_silu(Table& table) {
  table.template elements<SiluForward<float>>();
  table.template elements<SiluBackward<float>>();
}

}  // namespace belfry
