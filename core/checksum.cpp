// SPDX-License-Identifier: MIT
#include "belfry/core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace belfry {
namespace {

std::string to_hex(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = 0; i < 16; ++i) out[i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
  return out;
}

}  // namespace

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh); }

std::string Checksum::hex() const { return to_hex(value()); }

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_hex(std::span<const std::byte> bytes) { return to_hex(checksum(bytes)); }

}  // namespace belfry
