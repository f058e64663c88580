// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// p <- (1 - lr decay) p - lr g
struct SgdUpdate {
  static constexpr const char* name = "sgd_update";
  static constexpr int states = 0;
  static constexpr bool squares = false;

  struct Range {
    float* param;
    const float* grad;
    float keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      param[i] = param[i] * keep - lr * (grad[i] * clip);
    }
    template <class V>
    BELFRY_HD void arrays(V& v) {
      v.updates(param).reads(grad);
    }
  };
  BELFRY_HD Range on(const UpdatePiece& p, const UpdateScalars& s) const {
    return {p.param, p.grad, 1 - s.lr * s.decay, s.lr, s.clip};
  }
};

template <class Table>
void kernels_of_sgd(Table& table) {
  table.template rows<UpdateSegments<SgdUpdate>>();
}

}  // namespace belfry
