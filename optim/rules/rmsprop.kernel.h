// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/device/types.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// v <- a v + (1 - a) g g, d = g / (sqrt(v) + eps); with kMomentum u <- mu u + d, else u = d;
// p <- (1 - lr decay) p - lr u. PyTorch's form, without its centered variant.
template <bool kMomentum>
struct RmspropUpdate {
  static constexpr const char* name = kMomentum ? "rmsprop_momentum_update" : "rmsprop_update";
  float* param;
  const float* grad;
  float* moment;
  float* velocity;  // null unless kMomentum
  const UpdateScalars* scalars;
  double alpha;  // in double: 1 - alpha must not lose digits
  float mu, eps;

  struct Range {
    float* param;
    const float* grad;
    float* moment;
    float* velocity;
    float alpha, one_minus_alpha, mu, eps, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float v = alpha * moment[i] + one_minus_alpha * (g * g);
      moment[i] = v;
      float u = g / (std::sqrt(v) + eps);
      if constexpr (kMomentum) {
        u = mu * velocity[i] + u;
        velocity[i] = u;
      }
      param[i] = param[i] * keep - lr * u;
    }
  };
  BELFRY_HD Range local() const {
    const UpdateScalars s = *scalars;
    return {param,
            grad,
            moment,
            velocity,
            static_cast<float>(alpha),
            static_cast<float>(1 - alpha),
            mu,
            eps,
            1 - s.lr * s.decay,
            s.lr,
            s.clip};
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(grad, n * sizeof(float)).reads(scalars, sizeof *scalars);
    t.reads(param, n * sizeof(float)).writes(param, n * sizeof(float));
    t.reads(moment, n * sizeof(float)).writes(moment, n * sizeof(float));
    if (kMomentum) t.reads(velocity, n * sizeof(float)).writes(velocity, n * sizeof(float));
  }
};

template <class Table>
void kernels_of_rmsprop(Table& table) {
  table.template elements<RmspropUpdate<false>>();
  table.template elements<RmspropUpdate<true>>();
}

}  // namespace belfry
