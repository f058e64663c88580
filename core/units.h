// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace belfry {

// A length of training: "500u" updates, "2e" epochs (also "0.5e"), "10krows", "1Mrows" or "64rows".
// A plain integer counts updates. A value; comparing two needs to_updates().
struct Period {
  enum class Unit : std::uint8_t { updates, epochs, rows };

  double value = 0;  // whole for updates and rows, below 2^53
  Unit unit = Unit::updates;

  // Throws ConfigError; `what` names the key or argument in its message.
  static Period parse(std::string_view text, std::string_view what = "period");

  // Rounded up. `rows_per_epoch` is what an epoch trains (without dropped rows), 0 when unknown:
  // then epochs throw ConfigError. An epoch ends with a short batch, so it takes
  // ceil(rows_per_epoch / global_batch) updates.
  std::int64_t to_updates(std::int64_t rows_per_epoch, std::int64_t global_batch) const;

  bool operator==(const Period&) const = default;
};

// The shortest text that parses to the same period.
std::string to_string(const Period& period);

}  // namespace belfry
