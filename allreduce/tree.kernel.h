// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/host_device.h"

namespace belfry {

// Adds up N leaves as a binary tree over their index: pairs (2i, 2i+1) at each level, a missing
// partner passes through. `leaf(k)` gives leaf k; `has(k)` whether it exists.
template <int First, int Count, class Leaf>
BELFRY_HD inline float tree_sum(const Leaf& leaf) {
  if constexpr (Count == 1) {
    return leaf(First);
  } else {
    constexpr int half = Count <= 2 ? 1 : (Count <= 4 ? 2 : (Count <= 8 ? 4 : 8));
    return tree_sum<First, half>(leaf) + tree_sum<First + half, Count - half>(leaf);
  }
}

// The same tree for any N, with absent leaves passed over: a binary counter of partial sums. With
// `merges` the leaves are nodes of several levels: merges[k] sums are added after leaf k.
template <class Leaf, class Has>
BELFRY_HD inline float tree_sum_any(int n, const unsigned char* merges, const Leaf& leaf,
                                    const Has& has) {
  float sums[32];
  bool full[32];
  int depth = 0;
  for (int k = 0; k < n; ++k) {
    bool there = has(k);
    float v = there ? leaf(k) : 0.f;
    unsigned bits = static_cast<unsigned>(k);
    if (merges != nullptr) bits = (1u << merges[k]) - 1u;
    for (; (bits & 1u) != 0; bits >>= 1) {
      --depth;
      v = full[depth] ? (there ? sums[depth] + v : sums[depth]) : v;
      there = there || full[depth];
    }
    sums[depth] = v;
    full[depth++] = there;
  }
  float v = 0;
  bool there = false;
  while (depth-- > 0) {
    v = full[depth] ? (there ? sums[depth] + v : sums[depth]) : v;
    there = there || full[depth];
  }
  return v;
}

}  // namespace belfry
