// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/half.h"
#include "belfry/device/kernel.h"

// Between f32 tensors and libraries that compute in bf16.
namespace belfry {

struct Narrow {
  static constexpr const char* name = "narrow_to_bf16";
  const float* x;
  BFloat16* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = BFloat16(x[i]); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(y);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof *x).writes(y, n * sizeof *y);
  }
};

// y[r, c] = x[r, c] (+ bias[c]).
struct Widen {
  static constexpr const char* name = "widen_from_bf16";
  const BFloat16* x;
  const float* bias;  // may be null
  float* y;
  std::size_t columns;
  BELFRY_HD void operator()(std::size_t i) const {
    const float v = static_cast<float>(x[i]);
    y[i] = bias == nullptr ? v : v + bias[i % columns];
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof *x).writes(y, n * sizeof *y);
    if (bias != nullptr) t.reads(bias, columns * sizeof *bias);
  }
};

template <class Table>
void kernels_of_cast(Table& table) {
  table.template elements<Narrow>();
  table.template elements<Widen>();
}

}  // namespace belfry
