// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/optim/layerwise.kernel.h"

namespace belfry {

// m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g g, with m' and v' their bias-corrected values:
// u = m' / (sqrt(v') + eps) + decay p, and p <- p - rate u, the rate scaled by |p| / |u| before.
struct LambUpdate {
  static constexpr const char* name = "lamb_update";
  static constexpr const char* measure_name = "lamb_measure";
  static constexpr int states = 2;  // mean, square
  static constexpr bool squares = false;
  double beta1, beta2;  // in double, as Adam's
  float eps;

  struct Moments {
    const float* grad;
    float *mean, *square;
    float b1, one_minus_b1, b2, one_minus_b2, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float s = clipped_square(grad[i] * grad[i], g, clip);
      mean[i] = b1 * mean[i] + one_minus_b1 * g;
      square[i] = b2 * square[i] + one_minus_b2 * s;
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.reads(grad).updates(mean).updates(square);
    }
  };
  struct Direction {
    const float *param, *mean, *square;
    float scale, root, eps, decay;
    BELFRY_HD float operator()(std::size_t i) const {
      return mean[i] * scale / (std::sqrt(square[i]) * root + eps) + decay * param[i];
    }
  };
  struct Step {
    float* param;
    Direction direction;
    float rate;
    BELFRY_HD void operator()(std::size_t i) const { param[i] -= rate * direction(i); }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(direction.param).reads(direction.mean).reads(direction.square);
    }
  };

  BELFRY_HD Moments moments(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.grad,
            p.state[0],
            p.state[1],
            static_cast<float>(beta1),
            static_cast<float>(1 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1 - beta2),
            s.clip};
  }
  BELFRY_HD Direction direction(const UpdatePiece& p, const UpdateScalars& s) const {
    const double t = static_cast<double>(s.step);
    return {p.param,
            p.state[0],
            p.state[1],
            static_cast<float>(1 / (1 - std::pow(beta1, t))),
            static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
            eps,
            s.decay};
  }
  BELFRY_HD Step on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param, direction(p, s), s.lr};
  }
};

template <class Table>
void kernels_of_lamb(Table& table) {
  table.template rows<MeasureSegments<LambUpdate>>();
  table.template rows<UpdateSegments<LambUpdate>>();
}

}  // namespace belfry
