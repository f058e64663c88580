// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// da = (a - b) seed factor.
template <class T>
struct MseBackward {
  static constexpr const char* name = kernel_name<T>("mse_backward_f32", "mse_backward_f64");
  const T* a;
  const T* b;
  const T* seed;
  T* da;
  T factor;
  BELFRY_HD void operator()(std::size_t i) const { da[i] = (a[i] - b[i]) * (seed[0] * factor); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(a).reads(b).writes(da);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(a, n * sizeof(T))
        .reads(b, n * sizeof(T))
        .reads(seed, sizeof(T))
        .writes(da, n * sizeof(T));
  }
};

template <class Table>
void kernels_of_mse(Table& table) {
  table.template elements<MseBackward<float>>();
}

}  // namespace belfry
