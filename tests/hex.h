// SPDX-License-Identifier: MIT
// Small binary files in sources.
#pragma once
#include <cstddef>
#include <string>

namespace belfry::test {

inline std::string from_hex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

}  // namespace belfry::test
