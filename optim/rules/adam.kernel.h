// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) s, with m' and v' their bias-corrected values:
// p <- (1 - lr decay) p - lr m' / (sqrt(v') + eps). s is g g, or with kTowers the mean over the
// units of their squared gradients. Both are clipped by the same operations in the same order, so
// that with one unit, where square == grad grad, the two agree bit for bit.
template <bool kTowers>
struct AdamUpdate {
  static constexpr const char* name = kTowers ? "adam_towers_update" : "adam_update";
  static constexpr int states = 2;  // mean, moment
  static constexpr bool squares = kTowers;
  double beta1, beta2;  // in double: 1 - 0.999f is wrong by 1.3e-5 of itself
  float eps;

  struct Range {
    float* param;
    const float* grad;
    const float* square;
    float* mean;
    float* moment;
    float b1, one_minus_b1, b2, one_minus_b2, keep, clip, rate, root, eps;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float raw = kTowers ? square[i] : grad[i] * grad[i];
      const float s = clipped_square(raw, g, clip);
      const float m = b1 * mean[i] + one_minus_b1 * g;
      const float v = b2 * moment[i] + one_minus_b2 * s;
      mean[i] = m;
      moment[i] = v;
      param[i] = param[i] * keep - rate * m / (std::sqrt(v) * root + eps);
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(mean).updates(moment);
      if constexpr (kTowers) v.reads(square);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    const double t = static_cast<double>(s.step);
    const double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
    return {p.param,
            p.grad,
            p.square,
            p.state[0],
            p.state[1],
            static_cast<float>(beta1),
            static_cast<float>(1 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1 - beta2),
            1 - s.lr * s.decay,
            s.clip,
            static_cast<float>(static_cast<double>(s.lr) / correction1),
            static_cast<float>(1 / std::sqrt(correction2)),
            eps};
  }
};

template <class Table>
void kernels_of_adam(Table& table) {
  table.template rows<UpdateSegments<AdamUpdate<false>>>();
  table.template rows<UpdateSegments<AdamUpdate<true>>>();
}

}  // namespace belfry
