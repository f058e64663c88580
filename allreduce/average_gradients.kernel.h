// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/half.h"
#include "belfry/device/kernel.h"

namespace belfry {

// mean[i] = tree over k of w_k g_k[i], divided by `total`; square[i] the same of g_k^2. Null
// sources are zeros that count (none = zero); weight 0 is left out.
template <class T, class Acc>
struct AverageLists {
  static constexpr const char* name = "average_lists";
  const T* const* sources;
  const double* weights;
  int n;
  double total;
  T* mean;
  Acc* square;  // null: not wanted

  template <class Leaf>
  BELFRY_HD Acc tree(const Leaf& leaf) const {
    Acc sums[32];
    int depth = 0;
    for (int k = 0; k < n; ++k) {
      Acc v = leaf(k);
      for (unsigned bits = static_cast<unsigned>(k); (bits & 1u) != 0; bits >>= 1)
        v = sums[--depth] + v;
      sums[depth++] = v;
    }
    Acc v = sums[--depth];
    while (depth > 0) v = sums[--depth] + v;
    return v;
  }

  BELFRY_HD void operator()(std::size_t i) const {
    const auto at = [&](int k) {
      return sources[k] == nullptr || !(weights[k] > 0) ? Acc(0) : static_cast<Acc>(sources[k][i]);
    };
    const Acc w = static_cast<Acc>(total);
    mean[i] = static_cast<T>(tree([&](int k) { return static_cast<Acc>(weights[k]) * at(k); }) / w);
    if (square != nullptr)
      square[i] = tree([&](int k) { return static_cast<Acc>(weights[k]) * at(k) * at(k); }) / w;
  }

  void touches(Touches& t, std::size_t count) const {
    for (int k = 0; k < n; ++k)
      if (sources[k] != nullptr) t.reads(sources[k], count * sizeof(T));
    t.writes(mean, count * sizeof(T));
    if (square != nullptr) t.writes(square, count * sizeof(Acc));
  }
};

// square[i] = g[i]^2 for a lone list.
template <class T, class Acc>
struct SquareList {
  static constexpr const char* name = "square_list";
  const T* g;
  Acc* square;
  BELFRY_HD void operator()(std::size_t i) const {
    const Acc v = static_cast<Acc>(g[i]);
    square[i] = v * v;
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(g, n * sizeof(T)).writes(square, n * sizeof(Acc));
  }
};

}  // namespace belfry
