// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <type_traits>

#include "belfry/device/lanes.h"

// Loops cut into tiles of registers whose extents are known to the compiler.
namespace belfry {

// What a register file holds: accumulators of kPixels x kChannels, or kTaps x kOutputs.
inline constexpr int kPixels = 4, kChannels = Lanes::count == 16 ? 6 : 3;
inline constexpr int kTaps = kChannels, kOutputs = 4;

// n cut into parts of at most `most` that differ by one at most: part k begins here.
inline std::int64_t part_begin(std::int64_t n, int most, std::int64_t k) {
  const std::int64_t parts = (n + most - 1) / most;
  return n * k / parts;
}

// Calls f(integral constant) with n, which is in [1, Most].
template <int Most, class F>
void with_count(std::int64_t n, const F& f) {
  if constexpr (Most > 1)
    if (n < Most) return with_count<Most - 1>(n, f);
  f(std::integral_constant<int, Most>{});
}

}  // namespace belfry
