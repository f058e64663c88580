// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// v <- rho v + (1 - rho) g g, d = g sqrt(u + eps) / sqrt(v + eps), u <- rho u + (1 - rho) d d;
// p <- (1 - lr decay) p - lr d
struct AdadeltaUpdate {
  static constexpr const char* name = "adadelta_update";
  static constexpr int states = 2;  // mean squares of the gradient and of the step
  static constexpr bool squares = false;
  double rho;  // in double, for 1 - rho
  float eps;

  struct Range {
    float* param;
    const float* grad;
    float* square;
    float* moved;
    float rho, one_minus_rho, eps, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float v = rho * square[i] + one_minus_rho * (g * g);
      const float d = g * (std::sqrt(moved[i] + eps) / std::sqrt(v + eps));
      square[i] = v;
      moved[i] = rho * moved[i] + one_minus_rho * (d * d);
      param[i] = param[i] * keep - lr * d;
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(square).updates(moved);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param,
            p.grad,
            p.state[0],
            p.state[1],
            static_cast<float>(rho),
            static_cast<float>(1 - rho),
            eps,
            1 - s.lr * s.decay,
            s.lr,
            s.clip};
  }
};

template <class Table>
void kernels_of_adadelta(Table& table) {
  table.template rows<UpdateSegments<AdadeltaUpdate>>();
}

}  // namespace belfry
