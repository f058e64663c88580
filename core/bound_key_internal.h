// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/core/schema.h"

namespace belfry {

// What is kept of a key once its schema is bound, so that nothing points into user structs later.
struct BoundKey {
  std::string name, value, fallback, type;
  KeyOptions options;

  // "# integer >= 0, default 1, unit rows. what it does".
  std::string comment() const {
    std::string out = "# " + type + ", default " + fallback;
    if (!options.unit.empty()) out += ", unit " + options.unit;
    if (!options.help.empty()) out += ". " + options.help;
    return out + "\n";
  }
};

}  // namespace belfry
