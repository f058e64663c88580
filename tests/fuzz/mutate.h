// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max);

namespace belfry::fuzz {

// Custom mutators: one part of an input of `used` bytes, of which there may be `max`.
inline void mutate(std::string& part, std::size_t used, std::size_t max) {
  const std::size_t size = part.size(),
                    room = max > used ? std::min<std::size_t>(max - used, 256) : 0;
  part.resize(std::max<std::size_t>(size + room, 1));
  part.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(part.data()), size, part.size()));
}

// What a custom mutator returns.
inline std::size_t put(const std::string& input, std::uint8_t* data, std::size_t max) {
  const std::size_t n = std::min(input.size(), max);
  std::memcpy(data, input.data(), n);
  return n;
}

}  // namespace belfry::fuzz
