// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/kernel.h"

namespace belfry {

// left += right: two partners of the tree over leaves. What has no weight counts as 0, whatever its
// gradient is; a null weight stands for a sum that is free of that already.
struct MergeLeaves {
  static constexpr const char* name = "merge_leaves";
  float* left;
  const float* right;
  const float* left_weight;
  const float* right_weight;
  BELFRY_HD void operator()(std::size_t i) const {
    const float l = left_weight == nullptr || *left_weight > 0 ? left[i] : 0.f;
    const float r = right_weight == nullptr || *right_weight > 0 ? right[i] : 0.f;
    left[i] = l + r;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.updates(left).reads(right);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(left, n * 4).reads(right, n * 4).writes(left, n * 4);
    if (left_weight != nullptr) t.reads(left_weight, 4);
    if (right_weight != nullptr) t.reads(right_weight, 4);
  }
};

// squares = x^2 / weight, the summand of one leaf in the mean of squares; 0 without weight.
struct LeafSquares {
  static constexpr const char* name = "leaf_squares";
  const float* x;
  float* squares;
  const float* weight;
  BELFRY_HD void operator()(std::size_t i) const {
    squares[i] = *weight > 0 ? x[i] * x[i] / *weight : 0.f;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).writes(squares);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * 4).reads(weight, 4).writes(squares, n * 4);
  }
};

template <class Table>
void kernels_of_leaf(Table& table) {
  table.template elements<MergeLeaves>();
  table.template elements<LeafSquares>();
}

}  // namespace belfry
