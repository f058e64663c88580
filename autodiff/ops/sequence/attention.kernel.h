// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>

#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_shape.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

// Attention for devices with many blocks, a few queries of every pair at a time: `part` holds the
// probabilities of queries [first, first + count) of all pairs, [pairs, count, keys], so memory is
// linear in the number of keys. Also the host's form where a number is not finite: nothing but what
// a query sees reaches its row.
namespace belfry {

template <class T>
struct AttentionPart {
  AttentionInputs<T> in;
  std::size_t first, count;
  BELFRY_HD std::size_t pair(std::size_t row) const { return row / count; }
  BELFRY_HD std::size_t query(std::size_t row) const { return first + row % count; }
  // The scaled product of a query and a key of a pair.
  BELFRY_HD T score(std::size_t p, std::size_t i, std::size_t j) const {
    const T *q = in.q + in.q_at(p) + i * in.q_stride, *k = in.k + in.kv_at(p) + j * in.kv_stride;
    T sum = T(0);
    for (std::size_t d = 0; d < in.width; ++d) sum += q[d] * k[d];
    return sum * in.scale;
  }
};

// Row (pair, query): its probabilities, the logarithm of their sum before division, its output.
template <class T>
struct AttentionQuery {
  static constexpr const char* name = kernel_name<T>("attention_query_f32", "attention_query_f64");
  AttentionPart<T> at;
  T *part, *out, *logsum;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const AttentionPart<T> a = at;
    const std::size_t pair = a.pair(row), i = a.query(row), n = a.in.seen(i);
    T* p = part + row * a.in.keys;
    const T top =
        team.template max<T>(n, [=](std::size_t j) { return p[j] = a.score(pair, i, j); });
    const T total =
        team.template sum<T>(n, [=](std::size_t j) { return p[j] = exp_of(p[j] - top); });
    if (a.in.drop.p != 0) team.each(n, [=](std::size_t j) { p[j] *= a.in.factor(pair, i, j); });
    const T* v = a.in.v + a.in.kv_at(pair);
    T* o = out + a.in.out_at(pair) + i * a.in.out_stride;
    team.each(a.in.width, [=](std::size_t d) {
      T sum = T(0);
      for (std::size_t j = 0; j < n; ++j) sum += p[j] * v[j * a.in.kv_stride + d];
      o[d] = sum / total;
    });
    T* l = logsum + pair * a.in.queries + i;
    team.each(1, [=](std::size_t) { *l = top + std::log(total); });
  }
  void touches(Touches& t, std::size_t rows) const {
    const AttentionInputs<T>& in = at.in;
    t.reads(in.q, in.q_span() * sizeof(T)).reads(in.k, in.kv_span() * sizeof(T));
    t.reads(in.v, in.kv_span() * sizeof(T)).writes(part, rows * in.keys * sizeof(T));
    t.writes(out, in.out_span() * sizeof(T));
    in.draws(t);
    t.writes(logsum, in.pairs() * in.queries * sizeof(T));
  }
};

template <class Table>
void kernels_of_attention(Table& table) {
  table.template rows<AttentionQuery<float>>();
}

}  // namespace belfry
