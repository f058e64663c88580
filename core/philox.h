// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "belfry/core/host_device.h"

namespace belfry {

// Philox4x32-10, a counter-based generator: Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011. Stateless: the same (key, counter) gives the same four words everywhere.
struct Philox {
  std::uint32_t key0 = 0, key1 = 0;

  struct Words {
    std::uint32_t v[4];
  };

  BELFRY_HD Words operator()(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                             std::uint32_t c3) const {
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0,
                          p1 = std::uint64_t{0xCD9E8D57u} * c2;
      const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

// A 32-bit word as a float in [0, 1): its top 24 bits.
BELFRY_HD inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// FNV-1a, 64 bit: turns names (module paths, variables) into counter words.
constexpr std::uint64_t name_hash(std::string_view text) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

// What a draw is for; part of the key, so that equal names in two uses never share numbers.
enum class Purpose : std::uint32_t { init = 1, shuffle = 2, dropout = 3, augment = 4, test = 5 };

BELFRY_HD inline Philox philox_key(std::uint64_t seed, Purpose purpose) {
  return {static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(purpose) * 0x85EBCA6Bu),
          static_cast<std::uint32_t>(seed >> 32) + static_cast<std::uint32_t>(purpose)};
}

}  // namespace belfry
