// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "belfry/core/schema.h"

namespace belfry {

// Where a key stands in the user's files; line 0 where there is none ("--set").
struct ConfigPlace {
  std::string file;
  std::int64_t line = 0;
  std::int64_t column = 0;
};

struct ConfigEntry;

// A parsed TOML value, so that toml++ stays in one .cpp.
struct ConfigValue {
  struct Other {
    std::string type;               // "date", "time": nothing that Belfry takes; "table"
    std::vector<ConfigEntry> keys;  // of a table in a list
  };
  std::variant<bool, std::int64_t, double, std::string, std::vector<ConfigValue>, Other> data;
  ConfigPlace place;
};

struct ConfigEntry {
  std::string key;
  ConfigValue value;
};

// "float 8.0", "string \"8\"": for "found ..." in messages.
std::string found_text(const ConfigValue& value);

// "" when the value that `target` points to is within the options, else "found ..., expected ...".
std::string present_fault(const KeyTarget& target, const KeyOptions& options);

// A number as TOML writes a float, without the ".0" of whole ones.
std::string number_text(double value);

// Tables by dotted path, "" for the top level; each holds its own keys only.
struct ConfigTable {
  ConfigPlace place;
  std::map<std::string, ConfigValue> keys;
};
using ConfigTables = std::map<std::string, ConfigTable>;

// Throw ConfigError with place and key.
ConfigTables parse_toml(const std::string& text, const std::string& file);
ConfigTables parse_assignment(const std::string& assignment);

std::string join_key(const std::string& table, const std::string& key);

// A value as TOML text.
std::string toml_text(bool value);
std::string toml_text(std::int64_t value);
std::string toml_text(double value);
std::string toml_text(const std::string& value);
template <class T>
std::string toml_text(const std::vector<T>& values) {
  std::string out;
  for (const T& value : values) out += (out.empty() ? "" : ", ") + toml_text(value);
  return "[" + out + "]";
}

}  // namespace belfry
