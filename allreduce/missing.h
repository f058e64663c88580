// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// What to do with a variable that has a gradient on some towers only. Rejecting is safe; zero makes
// the result independent of the number of towers. Missing on every tower always means: skipped.
enum class MissingOnSome : std::uint8_t { reject, zero };

}  // namespace belfry
