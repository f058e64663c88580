// SPDX-License-Identifier: MIT
#include "belfry/core/key_text.h"

#include "belfry/core/config_value_internal.h"

namespace belfry {

std::string key_text(const KeyTarget& target) {
  return std::visit([](const auto* value) { return toml_text(*value); }, target);
}

}  // namespace belfry
