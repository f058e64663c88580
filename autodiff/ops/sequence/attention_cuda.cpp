// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/autodiff/ops/sequence/attention_backward_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_forward_host.kernel.h"
#include "belfry/device/cuda/launch_by_name.h"
#include "belfry/device/cuda/scratch.h"

namespace belfry {
namespace {

constexpr std::size_t kPartBytes = std::size_t{64} << 20;  // of the probabilities at hand

// Calls f(part) for a few queries of all pairs at a time, in order.
template <class F>
void for_parts(const AttentionInputs<float>& in, std::size_t count, F&& f) {
  for (std::size_t first = 0; first < in.queries; first += count)
    f(AttentionPart<float>{in, first, std::min(count, in.queries - first)});
}

std::size_t queries_at_hand(const AttentionInputs<float>& in) {
  const std::size_t bytes = in.pairs() * in.keys * sizeof(float);
  return std::clamp<std::size_t>(kPartBytes / bytes, 1, in.queries);
}

void forward(CudaDevice& device, cudaStream_t stream, const AttentionForward<float>& c) {
  const std::size_t count = queries_at_hand(c.in), pairs = c.in.pairs();
  const Scratch memory(device, stream, pairs * count * c.in.keys * sizeof(float));
  auto* const part = static_cast<float*>(memory.data());
  for_parts(c.in, count, [&](const AttentionPart<float>& at) {
    launch_rows(device, stream, pairs * at.count, AttentionQuery<float>{at, part, c.out, c.logsum});
  });
}

void backward(CudaDevice& device, cudaStream_t stream, const AttentionBackward<float>& c) {
  const std::size_t count = queries_at_hand(c.in), pairs = c.in.pairs();
  const std::size_t elements = pairs * count * c.in.keys;
  const Scratch memory(device, stream, 2 * elements * sizeof(float));
  auto* const part = static_cast<float*>(memory.data());
  for_parts(c.in, count, [&](const AttentionPart<float>& at) {
    launch_rows(
        device, stream, pairs * at.count,
        AttentionQueryBackward<float>{at, c.g, c.out, c.logsum, part, part + elements, c.dq});
    if (c.dk == nullptr && c.dv == nullptr) return;
    launch_rows(device, stream, pairs * c.in.keys,
                AttentionKeyBackward<float>{at, c.g, part, part + elements, c.dk, c.dv});
  });
}

}  // namespace

void library_kernels_of_attention(KernelTable& t) {
  t.library<AttentionForward<float>, forward>();
  t.library<AttentionBackward<float>, backward>();
}

}  // namespace belfry
