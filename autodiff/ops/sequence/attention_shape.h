// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"

namespace belfry {

// The inputs of an attention: q [batch, queries, heads, width], k and v [batch, keys, heads,
// width], with q_stride and kv_stride elements from one position to the next, so that packed
// projections are read in place; the output is [batch, queries, heads, width] with out_stride. A
// pair is one head of one row of the batch. With `causal` query i sees the keys 0..i.
template <class T>
struct AttentionInputs {
  std::size_t batch, queries, keys, heads, width;
  bool causal;
  T scale;  // of the products of q and k: 1 / sqrt(width)
  const T *q, *k, *v;
  std::size_t q_stride, kv_stride, out_stride;

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
  // Elements from the first to the last that belong to all pairs.
  BELFRY_HD std::size_t q_span() const { return (batch * queries - 1) * q_stride + heads * width; }
  BELFRY_HD std::size_t kv_span() const { return (batch * keys - 1) * kv_stride + heads * width; }
  BELFRY_HD std::size_t out_span() const {
    return (batch * queries - 1) * out_stride + heads * width;
  }
  // One pair alone.
  AttentionInputs only(std::size_t pair) const {
    AttentionInputs one = *this;
    one.batch = one.heads = 1;
    one.q += q_at(pair), one.k += kv_at(pair), one.v += kv_at(pair);
    return one;
  }
};

}  // namespace belfry
