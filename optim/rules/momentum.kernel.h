// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// v <- mu v + g, p <- (1 - lr decay) p - lr v. The velocity is kept without the rate, so a new
// rate acts on all of it at once.
struct MomentumUpdate {
  static constexpr const char* name = "momentum_update";
  static constexpr int states = 1;  // velocity
  static constexpr bool squares = false;
  float mu;

  struct Range {
    float* param;
    const float* grad;
    float* velocity;
    float mu, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float v = mu * velocity[i] + grad[i] * clip;
      velocity[i] = v;
      param[i] = param[i] * keep - lr * v;
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(velocity);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param, p.grad, p.state[0], mu, 1 - s.lr * s.decay, s.lr, s.clip};
  }
};

template <class Table>
void kernels_of_momentum(Table& table) {
  table.template rows<UpdateSegments<MomentumUpdate>>();
}

}  // namespace belfry
