// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/attention_backward.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_dropout_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_host.kernel.h"

namespace belfry {

inline constexpr std::size_t kQueryBlock = 64;  // queries whose probabilities are at hand

// Row p: the gradients of pair p. Probabilities are computed again from logsum, a block of queries
// at a time; ds = p (m g . v - g . out) scale, dq = ds k, dk = ds^T q, dv = (m p)^T g, where m is
// what dropout multiplies p by. dq, dk, dv have the strides of their inputs; any may be null. Here
// is the host's, as in AttentionForward.
template <class T>
struct AttentionBackward {
  static constexpr const char* name =
      kernel_name<T>("attention_backward_f32", "attention_backward_f64");
  using Tools = AttentionHost<T>;
  using Dropout = AttentionDropoutHost<T>;
  AttentionInputs<T> in;
  const T *g, *out, *logsum;
  T *dq, *dk, *dv;

  // What one pair works on: its rows in the tensors, and packed memory.
  struct Pair {
    AttentionInputs<T> a;
    const T *g, *out, *log;
    std::size_t keys, width;  // padded
    T *kt, *vt, *k, *dk, *dv, *q, *o, *p, *s, *row, *m;
  };
  Pair pair_of(std::size_t index) const {
    Pair x{in.only(index),         g + in.out_at(index),
           out + in.out_at(index), logsum + index * in.queries,
           Tools::padded(in.keys), Tools::padded(in.width)};
    const std::size_t wide = x.keys * x.width, block = kQueryBlock * x.width;
    x.kt = Tools::memory(5 * wide + 2 * block + 2 * kQueryBlock * x.keys + kQueryRows * x.width +
                         Dropout::memory(in));
    x.vt = x.kt + wide, x.k = x.vt + wide, x.dk = x.k + wide, x.dv = x.dk + wide;
    x.q = x.dv + wide, x.o = x.q + block, x.p = x.o + block, x.s = x.p + kQueryBlock * x.keys;
    x.row = x.s + kQueryBlock * x.keys, x.m = x.row + kQueryRows * x.width;
    return x;
  }
  void operator()(HostTeam& team, std::size_t index) const {
    const Pair x = pair_of(index);
    const AttentionInputs<T>& a = x.a;
    T* const dq_at = dq == nullptr ? nullptr : dq + in.q_at(index);
    if (!Tools::finite(a.q, a.q_stride, a.queries, a.width) ||
        !Tools::finite(a.k, a.kv_stride, a.keys, a.width) ||
        !Tools::finite(a.v, a.kv_stride, a.keys, a.width) ||
        !Tools::finite(x.g, a.out_stride, a.queries, a.width))
      return plain(team, x, index);
    Tools::pack_transposed(a.k, a.kv_stride, a.keys, a.width, a.scale, x.kt, x.keys);
    Tools::pack_transposed(a.v, a.kv_stride, a.keys, a.width, T(1), x.vt, x.keys);
    Tools::pack(a.k, a.kv_stride, a.keys, a.width, x.k, x.width);
    for (std::size_t i = 0; i < 2 * x.keys * x.width; ++i) x.dk[i] = T(0);  // and dv behind it
    for (std::size_t first = 0; first < a.queries; first += kQueryBlock) {
      const std::size_t left = a.queries - first, count = left < kQueryBlock ? left : kQueryBlock;
      queries(x, first, count, dq_at);
      keys(x, first, count);
    }
    for (std::size_t j = 0; j < a.keys; ++j)
      for (std::size_t c = 0; c < a.width; ++c) {
        const std::size_t place = in.kv_at(index) + j * a.kv_stride + c;
        if (dk != nullptr) dk[place] = x.dk[j * x.width + c];
        if (dv != nullptr) dv[place] = x.dv[j * x.width + c];
      }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(in.q, in.q_span() * sizeof(T)).reads(in.k, in.kv_span() * sizeof(T));
    t.reads(in.v, in.kv_span() * sizeof(T)).reads(g, in.out_span() * sizeof(T));
    t.reads(out, in.out_span() * sizeof(T)).reads(logsum, in.pairs() * in.queries * sizeof(T));
    if (dq != nullptr) t.writes(dq, in.q_span() * sizeof(T));
    if (dk != nullptr) t.writes(dk, in.kv_span() * sizeof(T));
    if (dv != nullptr) t.writes(dv, in.kv_span() * sizeof(T));
    in.draws(t);
  }

 private:
  // p and ds of a block of queries, and their dq.
  static void queries(const Pair& x, std::size_t first, std::size_t count, T* dq_at);
  // What these add to dk and dv.
  static void keys(const Pair& x, std::size_t first, std::size_t count);
  // p = e^(p - log), s = p (s - dot) scale; zeros from n up to `end`.
  static void weights(T* p, T* s, std::size_t n, std::size_t end, T log, T dot, T scale);
  // Query by query, as in AttentionForward.
  void plain(HostTeam& team, const Pair& x, std::size_t index) const;
};

}  // namespace belfry

#include "belfry/autodiff/ops/sequence/attention_backward_parts.kernel.h"  // its functions
