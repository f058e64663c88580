// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/device/types.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// p <- (1 - lr decay) p - lr g
struct SgdUpdate {
  static constexpr const char* name = "sgd_update";
  float* param;
  const float* grad;
  const UpdateScalars* scalars;

  struct Range {
    float* param;
    const float* grad;
    float keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      param[i] = param[i] * keep - lr * (grad[i] * clip);
    }
  };
  BELFRY_HD Range local() const {
    const UpdateScalars s = *scalars;
    return {param, grad, 1 - s.lr * s.decay, s.lr, s.clip};
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(grad, n * sizeof(float)).reads(scalars, sizeof *scalars);
    t.reads(param, n * sizeof(float)).writes(param, n * sizeof(float));
  }
};

template <class Table>
void kernels_of_sgd(Table& table) {
  table.template elements<SgdUpdate>();
}

}  // namespace belfry
