// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// What becomes of an index that a scatter gets more than once.
enum class Duplicates : std::uint8_t {
  reject,  // DataError naming both places; rows may be written in any order, which is fast on GPUs
  last,    // the last place counts: updates only
  sum,     // all are added, in their order, so the bits are always the same: additions only
};

}  // namespace belfry
