// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/sequence/attention_backward_host.kernel.h"

namespace belfry {

template <class T>
void AttentionBackward<T>::weights(T* p, T* s, std::size_t n, std::size_t end, T log, T dot,
                                   T scale) {
  for (std::size_t j = 0; j < n; j += Tools::kLanes) {  // memory goes on past n, to a whole vector
    const Vector<T> e = exp_vector(load_vector(p + j) - log);
    store_vector(p + j, e);
    store_vector(s + j, e * (load_vector(s + j) - dot) * scale);
  }
  for (std::size_t j = n; j < end; ++j) p[j] = s[j] = T(0);
}

template <class T>
void AttentionBackward<T>::queries(const Pair& x, std::size_t first, std::size_t count, T* dq_at) {
  const AttentionInputs<T>& a = x.a;
  Tools::pack(a.q + first * a.q_stride, a.q_stride, count, a.width, x.q, x.width);
  Tools::pack(x.g + first * a.out_stride, a.out_stride, count, a.width, x.o, x.width);
  for (std::size_t i = count * x.width; i < kQueryBlock * x.width; ++i) x.q[i] = x.o[i] = T(0);
  const std::size_t end = Tools::padded(a.seen(first + count - 1));
  for (std::size_t r0 = 0; r0 < count; r0 += kQueryRows) {
    const std::size_t left = count - r0, rows = left < kQueryRows ? left : kQueryRows;
    const std::size_t n = a.seen(first + r0 + rows - 1), columns = Tools::padded(n);
    T *const p = x.p + r0 * x.keys, *const s = x.s + r0 * x.keys;
    Tools::template product<false>(kQueryRows, columns, a.width, x.q + r0 * x.width, x.width, 1,
                                   x.kt, x.keys, p, x.keys);
    Tools::template product<false>(kQueryRows, columns, a.width, x.o + r0 * x.width, x.width, 1,
                                   x.vt, x.keys, s, x.keys);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t i = first + r0 + r;
      const T dot = Tools::dot(x.o + (r0 + r) * x.width, x.out + i * a.out_stride, a.width);
      if (a.drop.p != 0) Dropout::drop(a, i, x.m, s + r * x.keys);
      weights(p + r * x.keys, s + r * x.keys, a.seen(i), end, x.log[i], dot, a.scale);
      if (a.drop.p != 0) Dropout::multiply(p + r * x.keys, x.m, a.seen(i));
    }
    if (dq_at == nullptr) continue;
    Tools::template product<false>(kQueryRows, x.width, n, s, x.keys, 1, x.k, x.width, x.row,
                                   x.width);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < a.width; ++c)
        dq_at[(first + r0 + r) * a.q_stride + c] = x.row[r * x.width + c];
  }
}

template <class T>
void AttentionBackward<T>::keys(const Pair& x, std::size_t first, std::size_t count) {
  const std::size_t n = x.a.seen(first + count - 1);
  for (std::size_t j = 0; j < n; j += kTileRows) {
    const std::size_t begin = x.a.causal && j > first ? j - first : 0, terms = count - begin;
    const std::size_t weight = begin * x.keys + j, row = begin * x.width;
    Tools::template product<true>(kTileRows, x.width, terms, x.s + weight, 1, x.keys, x.q + row,
                                  x.width, x.dk + j * x.width, x.width);
    Tools::template product<true>(kTileRows, x.width, terms, x.p + weight, 1, x.keys, x.o + row,
                                  x.width, x.dv + j * x.width, x.width);
  }
}

template <class T>
void AttentionBackward<T>::plain(HostTeam& team, const Pair& x, std::size_t index) const {
  const std::size_t at_q = in.q_at(index), at_kv = in.kv_at(index);
  for (std::size_t i = 0; i < x.a.queries; ++i) {
    const AttentionPart<T> part{x.a, i, 1};
    AttentionQueryBackward<T>{
        part, x.g, x.out, x.log, x.p, x.s, dq == nullptr ? nullptr : dq + at_q}(team, 0);
    const std::size_t seen = i == 0 ? x.a.keys : x.a.seen(i);  // the first writes all
    for (std::size_t j = 0; j < seen; ++j)
      AttentionKeyBackward<T>{part,
                              x.g,
                              x.p,
                              x.s,
                              dk == nullptr ? nullptr : dk + at_kv,
                              dv == nullptr ? nullptr : dv + at_kv}(team, j);
  }
}

template <class Table>
void host_kernels_of_attention_backward(Table& table) {
  table.template rows<AttentionBackward<float>>();
}

}  // namespace belfry
