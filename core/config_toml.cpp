// SPDX-License-Identifier: MIT
// The only file that sees toml++.
#include <toml++/toml.h>

#include <charconv>
#include <cmath>

#include "belfry/core/config_value_internal.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

ConfigPlace place_of(const toml::source_region& region, const std::string& file) {
  return {file, static_cast<std::int64_t>(region.begin.line),
          static_cast<std::int64_t>(region.begin.column)};
}

std::string type_name(toml::node_type type) {
  switch (type) {
    case toml::node_type::date:
      return "date";
    case toml::node_type::time:
      return "time";
    case toml::node_type::date_time:
      return "date-time";
    default:
      return "table";
  }
}

ConfigValue convert(const toml::node& node, const std::string& file) {
  ConfigValue out;
  out.place = place_of(node.source(), file);
  if (const auto* v = node.as_boolean()) {
    out.data = v->get();
  } else if (const auto* i = node.as_integer()) {
    out.data = i->get();
  } else if (const auto* d = node.as_floating_point()) {
    out.data = d->get();
  } else if (const auto* s = node.as_string()) {
    out.data = s->get();
  } else if (const auto* a = node.as_array()) {
    std::vector<ConfigValue> list;
    for (const toml::node& item : *a) list.push_back(convert(item, file));
    out.data = std::move(list);
  } else {
    ConfigValue::Other other{type_name(node.type()), {}};
    if (const auto* table = node.as_table())
      for (const auto& [key, inner] : *table) {
        ConfigValue value = convert(inner, file);
        value.place = place_of(key.source(), file);
        other.keys.push_back({std::string(key.str()), std::move(value)});
      }
    out.data = std::move(other);
  }
  return out;
}

void flatten(const toml::table& table, const std::string& path, const std::string& file,
             ConfigTables* out) {
  (*out)[path].place = place_of(table.source(), file);
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, join_key(path, name), file, out);
      continue;
    }
    ConfigValue value = convert(node, file);
    value.place = place_of(key.source(), file);
    (*out)[path].keys.insert_or_assign(name, std::move(value));
  }
}

// The dotted key that a line of a broken file assigns to, "" where there is none.
std::string key_near(const std::string& text, std::int64_t line) {
  std::string table, key;
  std::size_t start = 0;
  for (std::int64_t number = 1; number <= line && start <= text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view row = trim(std::string_view(text).substr(start, end - start));
    start = end + 1;
    key.clear();
    if (row.starts_with('[') && row.ends_with(']') && row.find('=') == row.npos)
      table = std::string(trim(row.substr(1, row.size() - 2)));
    else if (const std::size_t equals = row.find('='); equals != row.npos)
      key = join_key(table, std::string(trim(row.substr(0, equals))));
  }
  return key;
}

bool is_bare_key(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain);
}

// Places inside an argument help nobody: the message names the key.
void forget_place(ConfigValue& value) {
  value.place = {"--set", 0, 0};
  if (auto* list = std::get_if<std::vector<ConfigValue>>(&value.data))
    for (ConfigValue& item : *list) forget_place(item);
  if (auto* other = std::get_if<ConfigValue::Other>(&value.data))
    for (ConfigEntry& entry : other->keys) forget_place(entry.value);
}

// The value of "--set key=text": TOML where it is TOML, else the text itself as a string. What
// opens a quote, list or table must be complete.
ConfigTables parse_set_value(std::string_view text, const std::string& key) {
  try {
    const toml::table parsed = toml::parse("value = " + std::string(text));
    if (parsed.size() == 1) {
      ConfigTables out;
      flatten(parsed, "", "--set", &out);
      return out;
    }
  } catch (const toml::parse_error& e) {
    if (text.empty() || std::string_view("\"'[{").find(text.front()) != std::string_view::npos)
      throw ConfigError(ErrorText{.what = "key '" + key + "': " + std::string(e.description()),
                                  .found = text.empty() ? "nothing" : std::string(text),
                                  .expected = "a value",
                                  .file = "--set"});
  }
  ConfigTables out;
  out[""].keys["value"].data = std::string(text);
  return out;
}

}  // namespace

std::string join_key(const std::string& table, const std::string& key) {
  return table.empty() ? key : table + "." + key;
}

ConfigTables parse_toml(const std::string& text, const std::string& file) {
  try {
    ConfigTables out;
    flatten(toml::parse(text, file), "", file, &out);
    return out;
  } catch (const toml::parse_error& e) {
    const ConfigPlace place = place_of(e.source(), file);
    const std::string key = key_near(text, place.line);
    const std::string subject =
        key.empty() ? "not valid TOML" : "key '" + key + "' is not valid TOML";
    throw ConfigError(ErrorText{.what = subject + ": " + std::string(e.description()),
                                .file = file,
                                .line = place.line,
                                .column = place.column});
  }
}

ConfigTables parse_assignment(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string path(trim(std::string_view(assignment).substr(0, equals)));
  bool valid = equals != std::string::npos;
  for (std::size_t start = 0; valid && start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    valid = is_bare_key(std::string_view(path).substr(start, dot - start));
    start = dot + 1;
  }
  if (!valid)
    throw ConfigError(ErrorText{.what = "not an assignment",
                                .found = "'" + assignment + "'",
                                .expected = "table.key=value",
                                .file = "--set"});
  ConfigTables parsed =
      parse_set_value(trim(std::string_view(assignment).substr(equals + 1)), path);
  const std::size_t dot = path.rfind('.');
  const std::string table = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
  ConfigTables out;
  for (auto& [name, content] : parsed) {
    // "value" stands for the key: rename it, and "value.x" of an inline table to "key.x".
    const std::string target = name.empty() ? table : path + name.substr(5);
    content.place = {"--set", 0, 0};
    for (auto& [inner, value] : content.keys) {
      forget_place(value);
      out[target].keys[name.empty() ? key : inner] = std::move(value);
    }
    out[target].place = content.place;
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[32];
  const bool plain = value == std::floor(value) && std::abs(value) < 1e15;
  const auto result = plain
                          ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed)
                          : std::to_chars(text, text + sizeof text, value);
  return std::string(text, result.ptr);
}

std::string toml_text(bool value) { return value ? "true" : "false"; }

std::string toml_text(std::int64_t value) { return std::to_string(value); }

std::string toml_text(double value) {
  const std::string text = number_text(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string toml_text(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += std::string("\\u00") + kDigits[static_cast<unsigned char>(c) >> 4] + kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string found_text(const ConfigValue& value) {
  const auto words = [](const auto& v) -> std::string {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, bool>) return "boolean " + toml_text(v);
    if constexpr (std::is_same_v<T, std::int64_t>) return "integer " + toml_text(v);
    if constexpr (std::is_same_v<T, double>) return "float " + toml_text(v);
    if constexpr (std::is_same_v<T, std::string>) return "string " + toml_text(v);
    if constexpr (std::is_same_v<T, ConfigValue::Other>) return v.type;
    return "a list";
  };
  return std::visit(words, value.data);
}

}  // namespace belfry
