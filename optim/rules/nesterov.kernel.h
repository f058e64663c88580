// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"
#include "belfry/device/types.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// v <- mu v + g, p <- (1 - lr decay) p - lr (g + mu v), with the new v: PyTorch's form.
struct NesterovUpdate {
  static constexpr const char* name = "nesterov_update";
  float* param;
  const float* grad;
  float* velocity;
  const UpdateScalars* scalars;
  float mu;

  struct Range {
    float* param;
    const float* grad;
    float* velocity;
    float mu, keep, lr, clip;
    BELFRY_HD void operator()(std::size_t i) const {
      const float g = grad[i] * clip;
      const float v = mu * velocity[i] + g;
      velocity[i] = v;
      param[i] = param[i] * keep - lr * (g + mu * v);
    }
  };
  BELFRY_HD Range local() const {
    const UpdateScalars s = *scalars;
    return {param, grad, velocity, mu, 1 - s.lr * s.decay, s.lr, s.clip};
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(grad, n * sizeof(float)).reads(scalars, sizeof *scalars);
    t.reads(param, n * sizeof(float)).writes(param, n * sizeof(float));
    t.reads(velocity, n * sizeof(float)).writes(velocity, n * sizeof(float));
  }
};

template <class Table>
void kernels_of_nesterov(Table& table) {
  table.template elements<NesterovUpdate>();
}

}  // namespace belfry
