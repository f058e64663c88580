// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>

#include "belfry/core/error.h"

namespace belfry {

// A ConfigError about one key of a plug-in's table that shows only at work: the plug-in does not
// know the table's name and place, whoever has the config does and adds them. Owns its text.
class KeyError : public ConfigError {
 public:
  KeyError(std::string key, ErrorText text) : ConfigError(std::move(text)), key_(std::move(key)) {}
  const std::string& key() const noexcept { return key_; }

 private:
  std::string key_;
};

}  // namespace belfry
