// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/tree.kernel.h"
#include "belfry/device/kernel.h"

namespace belfry {

// out = the sum of N sources in one tree, divided by w where asked.
template <int N>
struct FoldRange {
  const float* from[N == 0 ? 1 : static_cast<std::size_t>(N)];
  float* out;
  float w;
  bool divide;
  BELFRY_HD void operator()(std::size_t i) const {
    const float s = tree_sum<0, N>([&](int k) { return from[k][i]; });
    out[i] = divide ? s / w : s;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    for (int k = 0; k < N; ++k) v.reads(from[k]);
    v.writes(out);
  }
};

}  // namespace belfry
