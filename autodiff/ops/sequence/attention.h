// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// Dropout of an attention's probabilities. `path` names the caller: name_hash of a module path.
struct AttentionDropout {
  double p = 0;
  std::uint64_t path = 0;
};

// softmax(q k^T / sqrt(width)) v for each head: Vaswani et al., "Attention is all you need", 2017.
// qkv is [rows, positions, 3 heads width], the projections q, k and v side by side; the result is
// [rows, positions, heads width]. With `causal` a position sees itself and those before it, and
// what it does not see cannot reach it, NaN included. Memory is linear in the number of positions:
// probabilities are computed again in backward. f32 or f64.
//
// In training each probability is zeroed with `dropout.p`, the rest divided by 1 - p, as PyTorch's
// scaled_dot_product_attention does. The mask is drawn as that of dropout() is, and again in
// backward, with (head, query, key) as a row's element; row 0 of qkv must be the pass's first row
// (GradientError). Throws ConfigError unless 0 <= p < 1.
Tensor attention(const Tensor& qkv, std::int64_t heads, bool causal,
                 const AttentionDropout& dropout = {});

// The same from three tensors: q [rows, positions, heads width], k and v [rows, keys, heads width];
// with `causal` there are as many keys as positions.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads, bool causal,
                 const AttentionDropout& dropout = {});

}  // namespace belfry
