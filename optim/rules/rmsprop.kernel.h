// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// v <- a v + (1 - a) g g, d = g / (sqrt(v) + eps); with kMomentum u <- mu u + d, else u = d;
// p <- (1 - lr decay) p - lr u. PyTorch's form, without its centered variant.
template <bool kMomentum>
struct RmspropUpdate {
  static constexpr const char* name = kMomentum ? "rmsprop_momentum_update" : "rmsprop_update";
  static constexpr int states = kMomentum ? 2 : 1;  // moment, velocity
  static constexpr bool squares = false;
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
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(moment);
      if constexpr (kMomentum) v.updates(velocity);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param,
            p.grad,
            p.state[0],
            kMomentum ? p.state[1] : nullptr,
            static_cast<float>(alpha),
            static_cast<float>(1 - alpha),
            mu,
            eps,
            1 - s.lr * s.decay,
            s.lr,
            s.clip};
  }
};

template <class Table>
void kernels_of_rmsprop(Table& table) {
  table.template rows<UpdateSegments<RmspropUpdate<false>>>();
  table.template rows<UpdateSegments<RmspropUpdate<true>>>();
}

}  // namespace belfry
