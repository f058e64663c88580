// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/random/dropout_draw.h"
#include "belfry/core/host_device.h"
#include "belfry/device/types.h"

namespace belfry {

// The inputs of an attention: q [batch, queries, heads, width], k and v [batch, keys, heads,
// width], with q_stride and kv_stride elements from one position to the next, so that packed
// projections are read in place; the output is [batch, queries, heads, width] with out_stride. A
// pair is one head of one row of the batch. With `causal` query i sees the keys 0..i. Where `drop`
// says so, probabilities are dropped: those of a query begin with a quad of numbers of their own.
template <class T>
struct AttentionInputs {
  std::size_t batch, queries, keys, heads, width;
  bool causal;
  T scale;  // of the products of q and k: 1 / sqrt(width)
  const T *q, *k, *v;
  std::size_t q_stride, kv_stride, out_stride;
  DropoutDraw drop{};          // of the probabilities
  T kept = T(1);               // what those that stay are multiplied by: 1 / (1 - p)
  std::size_t first_quad = 0;  // of the first pair

  BELFRY_HD std::size_t pairs() const { return batch * heads; }
  // Where a pair begins in q (and its gradient), in k and v, and in the output.
  BELFRY_HD std::size_t q_at(std::size_t pair) const {
    return pair / heads * queries * q_stride + pair % heads * width;
  }
  BELFRY_HD std::size_t kv_at(std::size_t pair) const {
    return pair / heads * keys * kv_stride + pair % heads * width;
  }
  BELFRY_HD std::size_t out_at(std::size_t pair) const {
    return pair / heads * queries * out_stride + pair % heads * width;
  }
  BELFRY_HD std::size_t seen(std::size_t query) const {  // how many keys
    return causal && query + 1 < keys ? query + 1 : keys;
  }
  BELFRY_HD std::size_t quads() const { return (keys + 3) / 4; }  // of numbers for a query
  BELFRY_HD std::size_t quad_at(std::size_t pair, std::size_t query) const {
    return first_quad + (pair % heads * queries + query) * quads();
  }
  // What the probability of a pair's query and key is multiplied by.
  BELFRY_HD T factor(std::size_t pair, std::size_t query, std::size_t key) const {
    if (drop.p == 0) return T(1);
    const DropoutDraw d = drop.of_row(pair / heads);
    const Philox::Words w = d.words(quad_at(pair, query) + key / 4);
    const std::uint32_t even = key % 4 == 0 ? w.v[0] : w.v[2], odd = key % 4 == 1 ? w.v[1] : w.v[3];
    return d.keeps(key % 2 == 0 ? even : odd) ? kept : T(0);
  }
  // Elements from the first to the last that belong to all pairs.
  BELFRY_HD std::size_t q_span() const { return (batch * queries - 1) * q_stride + heads * width; }
  BELFRY_HD std::size_t kv_span() const { return (batch * keys - 1) * kv_stride + heads * width; }
  BELFRY_HD std::size_t out_span() const {
    return (batch * queries - 1) * out_stride + heads * width;
  }
  void draws(Touches& t) const {
    if (drop.numbers != nullptr) t.reads(drop.numbers, sizeof(PassNumbers));
  }
  // One pair alone.
  AttentionInputs only(std::size_t pair) const {
    AttentionInputs one = *this;
    one.batch = one.heads = 1;
    one.q += q_at(pair), one.k += kv_at(pair), one.v += kv_at(pair);
    one.drop.first_row += static_cast<std::uint32_t>(pair / heads);
    one.first_quad = quad_at(pair, 0);
    return one;
  }
};

}  // namespace belfry
