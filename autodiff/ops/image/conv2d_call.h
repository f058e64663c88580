// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/kernel.h"
#include "belfry/device/library_shapes.h"

// The convolutions of a library in f32, each as one row. Here are the host's, by oneDNN, or plain
// loops where it has no fast code; other backends register theirs under the same names. Their
// outputs are not empty. In f64 the plain loops are launched themselves.
namespace belfry {

class OneDnn;

inline std::size_t conv_x_bytes(const ConvShape& s) {
  return static_cast<std::size_t>(s.n * s.h * s.w * s.in) * sizeof(float);
}
inline std::size_t conv_weight_bytes(const ConvShape& s) {
  return static_cast<std::size_t>(s.out * s.kh * s.kw * s.in) * sizeof(float);
}
inline std::size_t conv_y_bytes(const ConvShape& s) {
  return static_cast<std::size_t>(s.n * s.oh * s.ow * s.out) * sizeof(float);
}

struct ConvForwardCall {
  static constexpr const char* name = "conv_forward_f32";
  ConvShape s;
  const float *x, *weight, *bias;  // bias null unless s.bias
  float* y;
  OneDnn* onednn;  // null on devices without host memory
  void operator()(HostTeam& team, std::size_t row) const;
  void touches(Touches& t, std::size_t) const {
    t.reads(x, conv_x_bytes(s)).reads(weight, conv_weight_bytes(s));
    if (bias != nullptr) t.reads(bias, static_cast<std::size_t>(s.out) * sizeof(float));
    t.writes(y, conv_y_bytes(s));
  }
};

struct ConvBackwardDataCall {
  static constexpr const char* name = "conv_backward_data_f32";
  ConvShape s;
  const float *dy, *weight;
  float* dx;
  OneDnn* onednn;
  void operator()(HostTeam& team, std::size_t row) const;
  void touches(Touches& t, std::size_t) const {
    t.reads(dy, conv_y_bytes(s)).reads(weight, conv_weight_bytes(s)).writes(dx, conv_x_bytes(s));
  }
};

struct ConvBackwardWeightsCall {
  static constexpr const char* name = "conv_backward_weights_f32";
  ConvShape s;
  const float *x, *dy;
  float* dweight;
  OneDnn* onednn;
  void operator()(HostTeam& team, std::size_t row) const;
  void touches(Touches& t, std::size_t) const {
    t.reads(x, conv_x_bytes(s)).reads(dy, conv_y_bytes(s)).writes(dweight, conv_weight_bytes(s));
  }
};

}  // namespace belfry
