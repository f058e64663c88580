// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/sequence/attention.kernel.h"

namespace belfry {

// Row (pair, query): with p = e^(score - logsum), m what dropout multiplies it by and D = g . out,
// writes m p and ds = p (m g . v - D) scale to `part` and `dpart`, and dq = ds k.
template <class T>
struct AttentionQueryBackward {
  static constexpr const char* name =
      kernel_name<T>("attention_query_backward_f32", "attention_query_backward_f64");
  AttentionPart<T> at;
  const T *g, *out, *logsum;
  T *part, *dpart, *dq;  // dq may be null
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const AttentionPart<T> a = at;
    const std::size_t pair = a.pair(row), i = a.query(row), n = a.in.seen(i), width = a.in.width;
    T *p = part + row * a.in.keys, *s = dpart + row * a.in.keys;
    const std::size_t place = a.in.out_at(pair) + i * a.in.out_stride;
    const T *q = g + place, *o = out + place, *v = a.in.v + a.in.kv_at(pair);
    const T dot = team.template sum<T>(width, [=](std::size_t d) { return q[d] * o[d]; });
    const T log = logsum[pair * a.in.queries + i];
    team.each(n, [=](std::size_t j) {
      T sum = T(0);
      for (std::size_t d = 0; d < width; ++d) sum += q[d] * v[j * a.in.kv_stride + d];
      const T e = exp_of(a.score(pair, i, j) - log), m = a.in.factor(pair, i, j);
      p[j] = e * m;
      s[j] = e * (sum * m - dot) * a.in.scale;
    });
    if (dq == nullptr) return;
    T* to = dq + a.in.q_at(pair) + i * a.in.q_stride;
    const T* k = a.in.k + a.in.kv_at(pair);
    team.each(width, [=](std::size_t d) {
      T sum = T(0);
      for (std::size_t j = 0; j < n; ++j) sum += s[j] * k[j * a.in.kv_stride + d];
      to[d] = sum;
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    const AttentionInputs<T>& in = at.in;
    const std::size_t outs = in.out_span() * sizeof(T);
    t.reads(in.q, in.q_span() * sizeof(T)).reads(in.k, in.kv_span() * sizeof(T));
    t.reads(in.v, in.kv_span() * sizeof(T)).reads(g, outs).reads(out, outs);
    t.reads(logsum, in.pairs() * in.queries * sizeof(T));
    t.writes(part, rows * in.keys * sizeof(T)).writes(dpart, rows * in.keys * sizeof(T));
    if (dq != nullptr) t.writes(dq, in.q_span() * sizeof(T));
    in.draws(t);
  }
};

// Row (pair, key): adds what the part's queries that see it give: dk += ds q, dv += p g. The part
// of the first queries writes instead.
template <class T>
struct AttentionKeyBackward {
  static constexpr const char* name =
      kernel_name<T>("attention_key_backward_f32", "attention_key_backward_f64");
  AttentionPart<T> at;
  const T *g, *part, *dpart;
  T *dk, *dv;  // either may be null
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const AttentionPart<T> a = at;
    const std::size_t pair = row / a.in.keys, j = row % a.in.keys, keys = a.in.keys;
    const std::size_t begin = !a.in.causal || j < a.first ? 0 : j - a.first;
    const std::size_t place = a.in.kv_at(pair) + j * a.in.kv_stride;
    const auto add = [=](T* to, const T* weights, const T* from, std::size_t stride) {
      T sum = a.first == 0 ? T(0) : *to;
      for (std::size_t i = begin; i < a.count; ++i)
        sum += weights[(pair * a.count + i) * keys + j] * from[(a.first + i) * stride];
      *to = sum;
    };
    const T *q = a.in.q + a.in.q_at(pair), *o = g + a.in.out_at(pair), *p = part, *s = dpart;
    T *k = dk, *v = dv;
    team.each(a.in.width, [=](std::size_t d) {
      if (k != nullptr) add(k + place + d, s, q + d, a.in.q_stride);
      if (v != nullptr) add(v + place + d, p, o + d, a.in.out_stride);
    });
  }
  void touches(Touches& t, std::size_t) const {
    const AttentionInputs<T>& in = at.in;
    const std::size_t parts = in.pairs() * at.count * in.keys * sizeof(T);
    t.reads(in.q, in.q_span() * sizeof(T)).reads(part, parts).reads(dpart, parts);
    t.reads(g, in.out_span() * sizeof(T));
    for (T* to : {dk, dv}) {
      if (to == nullptr) continue;
      if (at.first != 0) t.reads(to, in.kv_span() * sizeof(T));
      t.writes(to, in.kv_span() * sizeof(T));
    }
  }
};

template <class Table>
void kernels_of_attention_backward(Table& table) {
  table.template rows<AttentionQueryBackward<float>>();
  table.template rows<AttentionKeyBackward<float>>();
}

}  // namespace belfry
