// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/kernel.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

class OneDnn;

// c = a b (+ bias) by a library, as one row. Here is the host's: oneDNN in f32, Eigen in f64; other
// backends register theirs under the same name. k may be 0, c is not empty.
template <class T>
struct GemmCall {
  static constexpr const char* name = kernel_name<T>("gemm_f32", "gemm_f64");
  MatmulShape s;
  const T *a, *b, *bias;  // bias null unless s.bias
  T* c;
  OneDnn* onednn;  // null on devices without host memory

  void operator()(HostTeam& team, std::size_t row) const;
  void touches(Touches& t, std::size_t) const {
    const auto bytes = [](auto elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
    t.reads(a, bytes(s.batch * s.m * s.k)).reads(b, bytes(s.batch * s.k * s.n));
    if (bias != nullptr) t.reads(bias, bytes(s.n));
    t.writes(c, bytes(s.batch * s.m * s.n));
  }
};

}  // namespace belfry
