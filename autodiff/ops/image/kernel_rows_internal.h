// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "belfry/device/kernel.h"

// For convolutions that run kernels of ours inside one library call.
namespace belfry {

// Runs rows [begin, end) of f now, in the calling thread.
template <class F>
void run_rows(std::int64_t begin, std::int64_t end, const F& f) {
  static const HostBody body = host_body(typeid(F), host_rows<F>);
  body(&f, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
}

// w [taps, out] = weight [out, taps], in blocks that stay in L1.
inline void transpose_taps(const float* weight, std::int64_t out, std::int64_t taps, float* w) {
  constexpr std::int64_t kSide = 16;
  for (std::int64_t k0 = 0; k0 < taps; k0 += kSide)
    for (std::int64_t o0 = 0; o0 < out; o0 += kSide)
      for (std::int64_t k = k0; k < std::min(k0 + kSide, taps); ++k)
        for (std::int64_t o = o0; o < std::min(o0 + kSide, out); ++o)
          w[k * out + o] = weight[o * taps + k];
}

// Floats that begin a cache line, as registers of 64 bytes should. Kept, so that a warmed-up step
// takes none.
class LineMemory {
 public:
  float* of(std::int64_t floats) {
    constexpr std::size_t kLine = 64 / sizeof(float);
    const std::size_t size = static_cast<std::size_t>(floats) + kLine;
    if (memory_.size() < size) memory_.resize(size);
    const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float) % kLine;
    return memory_.data() + (kLine - past) % kLine;
  }

 private:
  std::vector<float> memory_;
};

}  // namespace belfry
