// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/device/types.h"

namespace belfry {

// The decay of the n-th averaging (n counts from 1): young averages follow the parameters faster,
// so that the initial values fade after tens of updates instead of 1 / (1 - decay).
BELFRY_HD inline double ema_decay(double decay, double n) {
  const double ramp = (1 + n) / (10 + n);
  return decay < ramp ? decay : ramp;
}

// shadow <- shadow + (1 - d) (param - shadow), after the update. The shadow starts as a copy of
// the initial parameters. `updates` is a device scalar: the applied updates, this one included.
struct EmaUpdate {
  static constexpr const char* name = "ema_update";
  float* shadow;
  const float* param;
  const float* updates;
  double decay;  // in double: 1 - 0.9999f is wrong by 1.6e-4 of itself

  struct Range {
    float* shadow;
    const float* param;
    float rate;
    BELFRY_HD void operator()(std::size_t i) const {
      shadow[i] = shadow[i] + rate * (param[i] - shadow[i]);
    }
  };
  BELFRY_HD Range local() const {
    return {shadow, param, static_cast<float>(1 - ema_decay(decay, *updates))};
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(param, n * sizeof(float)).reads(updates, sizeof *updates);
    t.reads(shadow, n * sizeof(float)).writes(shadow, n * sizeof(float));
  }
};

template <class Table>
void kernels_of_ema(Table& table) {
  table.template elements<EmaUpdate>();
}

}  // namespace belfry
