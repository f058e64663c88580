// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>

#include "belfry/autodiff/ops/sequence/attention.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_dropout_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_host.kernel.h"

namespace belfry {

// Row p: the output of pair p and, for backward, each query's logarithm of its sum of exponentials.
// Here is the host's; other backends have theirs under the same name.
template <class T>
struct AttentionForward {
  static constexpr const char* name = kernel_name<T>("attention_f32", "attention_f64");
  AttentionInputs<T> in;
  T *out, *logsum;
  void operator()(HostTeam& team, std::size_t pair) const {
    using Tools = AttentionHost<T>;
    using Dropout = AttentionDropoutHost<T>;
    const AttentionInputs<T> a = in.only(pair);
    T *const to = out + in.out_at(pair), *const log = logsum + pair * a.queries;
    const std::size_t keys = Tools::padded(a.keys), width = Tools::padded(a.width);
    T* const kt = Tools::memory(a.width * keys + a.keys * width + kQueryRows * (keys + 2 * width) +
                                Dropout::memory(a));
    T *const v = kt + a.width * keys, *const p = v + a.keys * width,
             *const q = p + kQueryRows * keys, *const o = q + kQueryRows * width,
             *const m = o + kQueryRows * width;
    if (!Tools::finite(a.q, a.q_stride, a.queries, a.width) ||
        !Tools::finite(a.k, a.kv_stride, a.keys, a.width) ||
        !Tools::finite(a.v, a.kv_stride, a.keys, a.width))
      return plain(team, a, p, to, log);
    Tools::pack_transposed(a.k, a.kv_stride, a.keys, a.width, a.scale, kt, keys);
    Tools::pack(a.v, a.kv_stride, a.keys, a.width, v, width);
    for (std::size_t first = 0; first < a.queries; first += kQueryRows) {
      const std::size_t left = a.queries - first, rows = left < kQueryRows ? left : kQueryRows;
      const std::size_t n = a.seen(first + rows - 1), end = Tools::padded(n);
      Tools::pack(a.q + first * a.q_stride, a.q_stride, rows, a.width, q, width);
      for (std::size_t i = rows * width; i < kQueryRows * width; ++i) q[i] = T(0);
      Tools::template product<false>(kQueryRows, end, a.width, q, width, 1, kt, keys, p, keys);
      T total[kQueryRows];
      for (std::size_t r = 0; r < rows; ++r) {
        T top;
        total[r] = Tools::exponentials(p + r * keys, a.seen(first + r), end, &top);
        log[first + r] = top + std::log(total[r]);
        if (a.drop.p != 0) Dropout::drop(a, first + r, m, p + r * keys);
      }
      Tools::template product<false>(kQueryRows, width, n, p, keys, 1, v, width, o, width);
      for (std::size_t r = 0; r < rows; ++r) {
        T* const row = to + (first + r) * a.out_stride;
        const T scale = T(1) / total[r];
        for (std::size_t c = 0; c < a.width; ++c) row[c] = o[r * width + c] * scale;
      }
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(in.q, in.q_span() * sizeof(T)).reads(in.k, in.kv_span() * sizeof(T));
    t.reads(in.v, in.kv_span() * sizeof(T)).writes(out, in.out_span() * sizeof(T));
    t.writes(logsum, in.pairs() * in.queries * sizeof(T));
    in.draws(t);
  }

 private:
  // Query by query: what a query does not see cannot reach it as 0 times NaN.
  static void plain(HostTeam& team, const AttentionInputs<T>& a, T* part, T* to, T* log) {
    for (std::size_t i = 0; i < a.queries; ++i)
      AttentionQuery<T>{{a, i, 1}, part, to, log}(team, 0);
  }
};

template <class Table>
void host_kernels_of_attention_forward(Table& table) {
  table.template rows<AttentionForward<float>>();
}

}  // namespace belfry
