// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/elementwise/activation_math.kernel.h"
#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// y = f(x); y may be x.
template <class T, class Math>
struct ActivationForward {
  static constexpr const char* name = kernel_name<T>(Math::kForward[0], Math::kForward[1]);
  const T* x;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = Math::value(x[i]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(y);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(T)).writes(y, n * sizeof(T));
  }
};

// dx = g f'; dx may be g.
template <class T, class Math>
struct ActivationBackward {
  static constexpr const char* name = kernel_name<T>(Math::kBackward[0], Math::kBackward[1]);
  const T* g;
  const T* saved;
  T* dx;
  BELFRY_HD void operator()(std::size_t i) const { dx[i] = Math::backward(g[i], saved[i]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(g).reads(saved).writes(dx);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(g, n * sizeof(T)).reads(saved, n * sizeof(T)).writes(dx, n * sizeof(T));
  }
};

// y = gelu(x), slope = gelu'(x) in one pass; slope may be x.
template <class T>
struct GeluBoth {
  static constexpr const char* name = kernel_name<T>("gelu_both_f32", "gelu_both_f64");
  const T* x;
  T* y;
  T* slope;
  BELFRY_HD void operator()(std::size_t i) const {
    const ValueAndSlope<T> v = gelu_both(x[i]);
    y[i] = v.value;
    slope[i] = v.slope;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(y).writes(slope);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(T)).writes(y, n * sizeof(T)).writes(slope, n * sizeof(T));
  }
};

template <class Table>
void kernels_of_activations(Table& table) {
  table.template elements<ActivationForward<float, ReluMath>>();
  table.template elements<ActivationBackward<float, ReluMath>>();
  table.template elements<ActivationForward<float, TanhMath>>();
  table.template elements<ActivationBackward<float, TanhMath>>();
  table.template elements<ActivationForward<float, SigmoidMath>>();
  table.template elements<ActivationBackward<float, SigmoidMath>>();
  table.template elements<ActivationForward<float, GeluMath>>();
  table.template elements<ActivationBackward<float, GeluMath>>();
  table.template elements<GeluBoth<float>>();
}

}  // namespace belfry
