// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/core/host_device.h"

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

}  // namespace belfry
