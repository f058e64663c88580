// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

// Activations: f(x) and f'. `slope` gets what forward saved: x where kSavesInput, else y = f(x).
namespace belfry {

struct ReluMath {
  static constexpr bool kSavesInput = false;
  static constexpr const char* kForward[2] = {"relu_f32", "relu_f64"};
  static constexpr const char* kBackward[2] = {"relu_backward_f32", "relu_backward_f64"};
  template <class T>
  BELFRY_HD static T value(T x) {
    return x < T(0) ? T(0) : x;
  }  // keeps NaN
  template <class T>
  BELFRY_HD static T backward(T g, T y) {
    return y > T(0) ? g : T(0);
  }
};
struct TanhMath {
  static constexpr bool kSavesInput = false;
  static constexpr const char* kForward[2] = {"tanh_f32", "tanh_f64"};
  static constexpr const char* kBackward[2] = {"tanh_backward_f32", "tanh_backward_f64"};
  template <class T>
  BELFRY_HD static T value(T x) {
    return tanh_of(x);
  }
  template <class T>
  BELFRY_HD static T backward(T g, T y) {
    return g * (T(1) - y * y);
  }
};
struct SigmoidMath {
  static constexpr bool kSavesInput = false;
  static constexpr const char* kForward[2] = {"sigmoid_f32", "sigmoid_f64"};
  static constexpr const char* kBackward[2] = {"sigmoid_backward_f32", "sigmoid_backward_f64"};
  template <class T>
  BELFRY_HD static T value(T x) {
    return sigmoid_of(x);
  }
  template <class T>
  BELFRY_HD static T backward(T g, T y) {
    return g * y * (T(1) - y);
  }
};
struct GeluMath {
  static constexpr bool kSavesInput = true;
  static constexpr const char* kForward[2] = {"gelu_f32", "gelu_f64"};
  static constexpr const char* kBackward[2] = {"gelu_backward_f32", "gelu_backward_f64"};
  template <class T>
  BELFRY_HD static T value(T x) {
    return gelu_of(x);
  }
  template <class T>
  BELFRY_HD static T backward(T g, T x) {
    return g * gelu_slope(x);
  }
};

// y = f(x); y may be x.
template <class T, class Math>
struct ActivationForward {
  static constexpr const char* name = kernel_name<T>(Math::kForward[0], Math::kForward[1]);
  const T* x;
  T* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = Math::value(x[i]); }
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
