// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include "belfry/core/error.h"

namespace belfry {

// Throws ConfigError naming the layer unless value >= 1; returns it.
inline std::int64_t positive(const std::string& layer, const char* what, std::int64_t value) {
  if (value < 1)
    throw ConfigError(ErrorText{.what = "layer '" + layer + "': " + what + " is out of range",
                                .found = std::to_string(value),
                                .expected = "at least 1"});
  return value;
}

// Throws ConfigError naming the layer unless 0 <= p < 1; returns it.
inline double dropped_share(const std::string& layer, double p) {
  if (!(p >= 0 && p < 1))
    throw ConfigError(
        ErrorText{.what = "layer '" + layer + "': dropout probability is out of range",
                  .found = std::to_string(p),
                  .expected = "at least 0 and below 1"});
  return p;
}

// PyTorch's default start of layers with this many inputs to each output.
inline double fan_in_bound(std::int64_t fan_in) {
  return 1.0 / std::sqrt(static_cast<double>(fan_in));
}

}  // namespace belfry
