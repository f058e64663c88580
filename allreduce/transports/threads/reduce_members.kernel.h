// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/kernel.h"

namespace belfry {

// out[i] = the sum or maximum over members m of in[m][i], in their order.
struct ReduceMembers {
  static constexpr const char* name = "reduce_members";
  const float* in;  // [members, n]
  std::size_t n, members;
  bool largest;
  float* out;
  BELFRY_HD void operator()(std::size_t i) const {
    float v = in[i];
    for (std::size_t m = 1; m < members; ++m) {
      const float x = in[m * n + i];
      v = largest ? (v < x ? x : v) : v + x;
    }
    out[i] = v;
  }
  void touches(Touches& t, std::size_t count) const {
    t.reads(in, members * count * sizeof(float)).writes(out, count * sizeof(float));
  }
};

template <class Table>
void kernels_of_reduce_members(Table& table) {
  table.template elements<ReduceMembers>();
}

}  // namespace belfry
