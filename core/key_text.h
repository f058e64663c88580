// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/core/schema.h"

namespace belfry {

// The value of a key as TOML text: "0.5", "[1, 2]", "\"crop\"".
std::string key_text(const KeyTarget& target);

}  // namespace belfry
