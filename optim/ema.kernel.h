// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"

namespace belfry {

// The decay of the n-th averaging (n counts from 1): young averages follow the parameters faster,
// so that the initial values fade after tens of updates instead of 1 / (1 - decay).
BELFRY_HD inline double ema_decay(double decay, double n) {
  const double ramp = (1 + n) / (10 + n);
  return decay < ramp ? decay : ramp;
}

// shadow <- shadow + (1 - d) (param - shadow), after the update. The shadow starts as a copy of
// the initial parameters.
struct EmaUpdate {
  float* shadow;
  const float* param;
  float rate;
  BELFRY_HD void operator()(std::size_t i) const {
    shadow[i] = shadow[i] + rate * (param[i] - shadow[i]);
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.updates(shadow).reads(param);
  }
};

// `updates`: the applied ones, this one included. In double: 1 - 0.9999f is wrong by 1.6e-4 of
// itself.
BELFRY_HD inline EmaUpdate ema_update(float* shadow, const float* param, double decay,
                                      float updates) {
  return {shadow, param, static_cast<float>(1 - ema_decay(decay, static_cast<double>(updates)))};
}

}  // namespace belfry
