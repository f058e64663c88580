// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/device/kernel.h"

namespace belfry {

// out[i] = the sum over members m of in[m][i], in their order: the same bits on every member.
struct SumMembers {
  static constexpr const char* name = "sum_members";
  const float* in;  // [members, n]
  std::size_t n, members;
  float* out;
  BELFRY_HD void operator()(std::size_t i) const {
    float v = in[i];
    for (std::size_t m = 1; m < members; ++m) v += in[m * n + i];
    out[i] = v;
  }
  void touches(Touches& t, std::size_t count) const {
    t.reads(in, members * count * sizeof(float)).writes(out, count * sizeof(float));
  }
};

template <class Table>
void kernels_of_sum_members(Table& table) {
  table.template elements<SumMembers>();
}

}  // namespace belfry
