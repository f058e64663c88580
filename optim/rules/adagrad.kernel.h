// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// s <- s + g g; p <- (1 - lr decay) p - lr g / (sqrt(initial + s) + eps)
struct AdagradUpdate {
  static constexpr const char* name = "adagrad_update";
  static constexpr int states = 1;  // sum of squares, without `initial`
  static constexpr bool squares = false;
  float initial, eps;

  struct Range {
    float* param;
    const float* grad;
    float* sum;
    float initial, eps, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float s = sum[i] + g * g;
      sum[i] = s;
      param[i] = param[i] * keep - lr * g / (std::sqrt(initial + s) + eps);
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(sum);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param, p.grad, p.state[0], initial, eps, 1 - s.lr * s.decay, s.lr, s.clip};
  }
};

template <class Table>
void kernels_of_adagrad(Table& table) {
  table.template rows<UpdateSegments<AdagradUpdate>>();
}

}  // namespace belfry
