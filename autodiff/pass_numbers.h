// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// What differs between replays of a recorded pass and keys its random numbers. In device memory.
struct PassNumbers {
  std::uint32_t update = 0, first_row = 0;
};

}  // namespace belfry
