// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>

#include "belfry/device/half.h"
#include "belfry/device/kernel.h"

namespace belfry {

template <class T>
constexpr const char* list_kernel_name(const char* f32, const char* f64, const char* bf16,
                                       const char* f16) {
  return std::is_same_v<T, BFloat16> ? bf16
                                     : (std::is_same_v<T, Half> ? f16 : kernel_name<T>(f32, f64));
}

// mean[i] = tree over k of w_k g_k[i], divided by `total`; square[i] the same of g_k^2. Null
// sources are zeros that count (none = zero); weight 0 is left out.
template <class T, class Acc>
struct AverageLists {
  static constexpr const char* name = list_kernel_name<T>(
      "average_lists_f32", "average_lists_f64", "average_lists_bf16", "average_lists_f16");
  const T* const* sources;
  const T* const* host_sources;  // the same
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
    t.reads(sources, static_cast<std::size_t>(n) * sizeof(T*));
    t.reads(weights, static_cast<std::size_t>(n) * sizeof(double));
    for (int k = 0; k < n; ++k)
      if (host_sources[k] != nullptr) t.reads(host_sources[k], count * sizeof(T));
    t.writes(mean, count * sizeof(T));
    if (square != nullptr) t.writes(square, count * sizeof(Acc));
  }
};

// square[i] = g[i]^2 for a lone list.
template <class T, class Acc>
struct SquareList {
  static constexpr const char* name = list_kernel_name<T>("square_list_f32", "square_list_f64",
                                                          "square_list_bf16", "square_list_f16");
  const T* g;
  Acc* square;
  BELFRY_HD void operator()(std::size_t i) const {
    const Acc v = static_cast<Acc>(g[i]);
    square[i] = v * v;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(g).writes(square);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(g, n * sizeof(T)).writes(square, n * sizeof(Acc));
  }
};

template <class Table>
void kernels_of_average_gradients(Table& table) {
  table.template elements<AverageLists<float, float>>();
  table.template elements<SquareList<float, float>>();
  table.template elements<AverageLists<double, double>>();
  table.template elements<SquareList<double, double>>();
  table.template elements<AverageLists<BFloat16, float>>();
  table.template elements<SquareList<BFloat16, float>>();
  table.template elements<AverageLists<Half, float>>();
  table.template elements<SquareList<Half, float>>();
}

}  // namespace belfry
