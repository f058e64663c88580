// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belfry/allreduce/flat_index.h"
#include "belfry/allreduce/missing.h"

namespace belfry {

// What one tower tells the others in every update, once its forward passes are submitted.
// `called` and `presence` are kept for each of its groups: a tower has one, in strict mode one a
// virtual shard.
struct HostPart {
  static constexpr std::uint32_t kMaxGroups = 64;
  static constexpr std::uint32_t kThrew = 1, kStop = 2;
  static constexpr std::uint32_t kTakesMemory = 4;  // in backward: no exchange before it has ended
  static constexpr std::uint32_t kReplays = 8;      // a recorded pass, which has its own memory
  std::int64_t update = 0;
  std::int64_t rows = 0;
  std::uint32_t flags = 0;
  std::uint32_t units = 0;  // backward passes that will contribute
  std::uint32_t groups = 1;
  std::uint64_t called = 0;             // one bit a group: it has rows
  std::vector<std::uint64_t> presence;  // by group, one bit a variable in flat order
  bool has(int variable, int group = 0) const;
  void set(int variable, int group = 0);
  void start(std::size_t variables, std::uint32_t group_count);  // room for them, all absent
  std::vector<std::byte> encode() const;
  static HostPart decode(std::span<const std::byte> bytes);  // throws CommError on a foreign size
};

// What all towers do in this update: a pure function of the gathered parts, so all decide alike.
struct Decision {
  enum class Kind : std::uint8_t { apply, refuse } kind = Kind::apply;
  std::string error;          // refuse, when a gradient is missing: the GradientError's text
  bool threw = false;         // refuse, because a tower threw
  bool stop = false;          // somebody asked to end after this update
  std::vector<char> present;  // one a variable: averaged and updated
  std::vector<int> skipped;   // absent on every tower with rows, and trainable
  std::uint32_t units = 0;
};

// `trainable[v]` is false for variables nobody differentiates: absent without a word.
// `unit` names a group in messages.
Decision decide(const std::vector<HostPart>& parts, const FlatIndex& index,
                const std::vector<char>& trainable, MissingOnSome missing,
                const std::string& unit = "tower");

}  // namespace belfry
