// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace belfry {

// What to do with a variable that has a gradient on some towers only. Rejecting is safe; zero makes
// the result independent of the number of towers. Missing on every tower always means: skipped.
enum class MissingOnSome : std::uint8_t { reject, zero };

// "b (missing on towers 0, 2 of 3)"; `unit` is "tower" or "virtual shard".
std::string missing_text(const std::string& variable, const std::vector<int>& lacking,
                         std::size_t of, const std::string& unit);

}  // namespace belfry
