// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace belfry {

// For messages: "'a', 'b'", or "no names".
std::string names_text(const std::vector<std::string>& names);

}  // namespace belfry
