// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/sequence/attention.h"

#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/random/dropout_draw_internal.h"
#include "belfry/autodiff/ops/sequence/attention_backward_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_forward_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_internal.h"

namespace belfry {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// What forward keeps: the inputs (packed: q is all three), the output and the logarithms of sums.
struct Saved {
  Tensor q, k, v, out, logsum;
  std::int64_t heads;
  bool causal, packed;
  DropoutDraw drop;
  double kept;
  std::int64_t columns() const { return out.shape()[2]; }
};

template <class T>
AttentionInputs<T> inputs(const Saved& s) {
  const std::size_t columns = size(s.columns());
  AttentionInputs<T> in{size(s.out.shape()[0]),
                        size(s.out.shape()[1]),
                        size(s.packed ? s.out.shape()[1] : s.k.shape()[1]),
                        size(s.heads),
                        columns / size(s.heads),
                        s.causal,
                        T(1) / std::sqrt(static_cast<T>(columns / size(s.heads))),
                        s.q.data<T>(),
                        s.packed ? s.q.data<T>() + columns : s.k.data<T>(),
                        s.packed ? s.q.data<T>() + 2 * columns : s.v.data<T>(),
                        s.packed ? 3 * columns : columns,
                        s.packed ? 3 * columns : columns,
                        columns,
                        s.drop,
                        static_cast<T>(s.kept)};
  return in;
}

void check_heads(std::int64_t columns, std::int64_t heads) {
  if (heads < 1 || columns < 1 || columns % heads != 0)
    throw_op("attention", "heads do not divide the columns",
             std::to_string(heads) + " heads, " + std::to_string(columns) + " columns",
             "at least 1 head, and columns a multiple of heads");
}

// The next draw of `dropout` for the probabilities of these rows.
DropoutDraw drawn(const Tensor& q, std::int64_t keys, std::int64_t heads,
                  const AttentionDropout& dropout) {
  const DropoutDraw draw = next_dropout("attention", q, dropout.p, dropout.path);
  const double quads = std::ceil(static_cast<double>(keys) / 4) * static_cast<double>(heads) *
                       static_cast<double>(q.shape()[1]);
  if (draw.p != 0 && quads > 0x1p32)
    throw_op("attention", "too many probabilities a row for dropout's numbers",
             std::to_string(heads) + " heads, " + std::to_string(q.shape()[1]) + " positions, " +
                 std::to_string(keys) + " keys",
             "at most 2^34 probabilities a row, or dropout 0");
  return draw;
}

template <class T>
void backward(Backward& b, const Saved& s) {
  const auto memory = [&](int i) { return b.wants(i) ? b.into(i).data<T>() : nullptr; };
  T* const dq = memory(0);
  T* const dk = s.packed ? dq + s.columns() : memory(1);
  T* const dv = s.packed ? dq + 2 * s.columns() : memory(2);
  const AttentionInputs<T> in = inputs<T>(s);
  if (s.out.size() == 0) {  // no queries: nothing depends on the keys
    for (T* to : {dk, dv})
      if (to != nullptr && !s.packed && s.k.size() != 0) stream_of(s.k).fill(to, 0, s.k.bytes());
    return;
  }
  launch_rows(stream_of(s.out), in.pairs(),
              AttentionBackward<T>{in, b.grad().data<T>(), s.out.data<T>(), s.logsum.data<T>(), dq,
                                   dk, dv});
}

// The output of what has been checked; records nothing.
template <class T>
Saved forward(Saved s, const Shape& out) {
  s.out = Tensor::empty(out, s.q.dtype(), s.q.device());
  s.logsum = Tensor::empty({out[0], s.heads, out[1]}, s.q.dtype(), s.q.device());
  const AttentionInputs<T> in = inputs<T>(s);
  if (s.out.size() != 0)
    launch_rows(stream_of(s.q), in.pairs(),
                AttentionForward<T>{in, s.out.data<T>(), s.logsum.data<T>()});
  return s;
}

}  // namespace

Tensor attention(const Tensor& qkv, std::int64_t heads, bool causal,
                 const AttentionDropout& dropout) {
  require_float("attention", qkv);
  require_rank("attention", qkv, 3, "qkv");
  if (qkv.shape()[2] % 3 != 0)
    throw_op("attention", "qkv does not hold three parts", qkv.shape().text(),
             "3 heads width columns");
  check_heads(qkv.shape()[2] / 3, heads);
  const DropoutDraw drop = drawn(qkv, qkv.shape()[1], heads, dropout);
  return with_float("attention", qkv, [&](auto scalar) {
    using T = decltype(scalar);
    const Saved s =
        forward<T>({qkv.detach(), {}, {}, {}, {}, heads, causal, true, drop, 1 / (1 - dropout.p)},
                   qkv.shape().with(2, qkv.shape()[2] / 3));
    return recorded(
        "attention", s.out, [s](Backward& b) { backward<T>(b, s); }, qkv);
  });
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads, bool causal,
                 const AttentionDropout& dropout) {
  require_float("attention", q);
  require_rank("attention", q, 3, "q");
  require_rank("attention", k, 3, "k");
  require_like("attention", q, k, "k");
  require_like("attention", q, v, "v");
  require_shape("attention", k, {q.shape()[0], k.shape()[1], q.shape()[2]}, "k");
  require_shape("attention", v, k.shape(), "v");
  check_heads(q.shape()[2], heads);
  if (causal ? k.shape()[1] != q.shape()[1] : k.shape()[1] < 1 && q.size() != 0)
    throw_op("attention", "keys and positions do not fit", k.shape().text(),
             causal ? "as many keys as positions, " + std::to_string(q.shape()[1]) : "a key");
  const DropoutDraw drop = drawn(q, k.shape()[1], heads, dropout);
  return with_float("attention", q, [&](auto scalar) {
    using T = decltype(scalar);
    const Saved s = forward<T>({q.detach(),
                                k.detach(),
                                v.detach(),
                                {},
                                {},
                                heads,
                                causal,
                                false,
                                drop,
                                1 / (1 - dropout.p)},
                               q.shape());
    return recorded(
        "attention", s.out, [s](Backward& b) { backward<T>(b, s); }, q, k, v);
  });
}

void register_op_attention(Registry& registry) {
  registry.table<OpEntry>().add("attention", attention_entry());
}

}  // namespace belfry
