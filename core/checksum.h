// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace belfry {

// XXH3, 64 bit, over bytes that come in pieces. Finds damage, not tampering. One thread.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;
  std::string hex() const;  // 16 lower-case digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);
std::string checksum_hex(std::span<const std::byte> bytes);

}  // namespace belfry
