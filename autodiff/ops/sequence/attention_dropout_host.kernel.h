// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/attention_shape.h"

namespace belfry {

// Dropout in the host's attention, a query at a time.
template <class T>
struct AttentionDropoutHost {
  // Memory for what dropout multiplies the probabilities of a query by.
  static std::size_t memory(const AttentionInputs<T>& a) {
    return a.drop.p == 0 ? 0 : a.quads() * 4;
  }
  // m[0..n) = what dropout multiplies the n probabilities of a query of one pair by; x *= m. Out of
  // line, so that loops without dropout are compiled as if there were none.
  [[gnu::noinline]] static void drop(const AttentionInputs<T>& a, std::size_t query, T* m, T* x) {
    const DropoutDraw d = a.drop.of_row(0);
    const T kept = a.kept;
    const std::size_t first = a.quad_at(0, query), quads = (a.seen(query) + 3) / 4;
    for (std::size_t quad = 0; quad < quads; ++quad) {
      const Philox::Words words = d.words(first + quad);
      T* const to = m + quad * 4;
      to[0] = d.keeps(words.v[0]) ? kept : T(0);
      to[1] = d.keeps(words.v[1]) ? kept : T(0);
      to[2] = d.keeps(words.v[2]) ? kept : T(0);
      to[3] = d.keeps(words.v[3]) ? kept : T(0);
    }
    multiply(x, m, a.seen(query));
  }
  [[gnu::noinline]] static void multiply(T* x, const T* by, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) x[j] *= by[j];
  }
};

}  // namespace belfry
