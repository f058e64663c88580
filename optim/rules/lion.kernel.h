// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// p <- (1 - lr decay) p - lr sign(b1 m + (1 - b1) g), then m <- b2 m + (1 - b2) g; sign(0) is 0 and
// that of NaN is NaN.
struct LionUpdate {
  static constexpr const char* name = "lion_update";
  static constexpr int states = 1;  // mean
  static constexpr bool squares = false;
  double beta1, beta2;  // in double, for 1 - beta

  struct Range {
    float* param;
    const float* grad;
    float* mean;
    float b1, one_minus_b1, b2, one_minus_b2, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float m = mean[i];
      const float way = b1 * m + one_minus_b1 * g;
      const float sign = way > 0 ? 1.0f : way < 0 ? -1.0f : way;
      mean[i] = b2 * m + one_minus_b2 * g;
      param[i] = param[i] * keep - lr * sign;
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad).updates(mean);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param,
            p.grad,
            p.state[0],
            static_cast<float>(beta1),
            static_cast<float>(1 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1 - beta2),
            1 - s.lr * s.decay,
            s.lr,
            s.clip};
  }
};

template <class Table>
void kernels_of_lion(Table& table) {
  table.template rows<UpdateSegments<LionUpdate>>();
}

}  // namespace belfry
