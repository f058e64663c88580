// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/core/host_device.h"

namespace belfry {

// What a row was divided by: out = e^(in - top) / total.
template <class T>
struct SoftmaxScale {
  T top, total;
};

// The softmax of `in`, with its largest value as 0; `out` may be `in`.
template <class T, class Team>
BELFRY_HD SoftmaxScale<T> softmax_row(Team& team, const T* in, T* out, std::size_t n) {
  const T top = team.template max<T>(n, [in](std::size_t c) { return in[c]; });
  const T total = team.template sum<T>(
      n, [in, out, top](std::size_t c) { return out[c] = exp_of(in[c] - top); });
  const T scale = T(1) / total;
  team.each(n, [out, scale](std::size_t c) { out[c] *= scale; });
  return {top, total};
}

}  // namespace belfry
