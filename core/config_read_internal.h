// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "belfry/core/config_value_internal.h"
#include "belfry/core/error.h"

namespace belfry {

// Reads `value` as exactly the target's type; an integer may stand for a float.
inline bool read(const ConfigValue& value, bool* out, const KeyOptions&) {
  const bool* b = std::get_if<bool>(&value.data);
  if (b) *out = *b;
  return b != nullptr;
}
inline bool read(const ConfigValue& value, std::int64_t* out, const KeyOptions&) {
  const std::int64_t* i = std::get_if<std::int64_t>(&value.data);
  if (i) *out = *i;
  return i != nullptr;
}
inline bool read(const ConfigValue& value, double* out, const KeyOptions&) {
  if (const auto* i = std::get_if<std::int64_t>(&value.data)) {
    *out = static_cast<double>(*i);
    return true;
  }
  const double* d = std::get_if<double>(&value.data);
  if (d) *out = *d;
  return d != nullptr;
}
inline bool read(const ConfigValue& value, std::string* out, const KeyOptions& options) {
  const auto* i = std::get_if<std::int64_t>(&value.data);
  if (i && (options.period || options.index)) {
    *out = std::to_string(*i);
    return true;
  }
  const auto* s = std::get_if<std::string>(&value.data);
  if (s) *out = *s;
  return s != nullptr;
}
template <class T>
inline bool read(const ConfigValue& value, std::vector<T>* out, const KeyOptions& options) {
  const auto* list = std::get_if<std::vector<ConfigValue>>(&value.data);
  if (!list) return false;
  out->clear();
  for (const ConfigValue& item : *list) {
    T element{};
    if (!read(item, &element, options)) return false;
    out->push_back(std::move(element));
  }
  return true;
}

// The item of a list that is at fault, or the value itself.
template <class T>
const ConfigValue& culprit(const ConfigValue& value, const KeyOptions& options) {
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                std::is_same_v<T, std::vector<double>> ||
                std::is_same_v<T, std::vector<std::string>>) {
    if (const auto* list = std::get_if<std::vector<ConfigValue>>(&value.data)) {
      for (const ConfigValue& item : *list) {
        typename T::value_type element{};
        if (!read(item, &element, options) || !present_fault(&element, options).empty())
          return item;
      }
    }
  }
  return value;
}

// How to write a number where a string is wanted, or one value where a list is (`whole`: `bad` is
// the key's); "" for other targets and values.
template <class T>
std::string quotes_hint(const std::string& key, const ConfigValue& bad, bool whole) {
  if constexpr (!std::is_arithmetic_v<T> && !std::is_same_v<T, std::string>) {
    typename T::value_type one{};
    if (whole && read(bad, &one, {}))
      return "write it as a list: " + key + " = [" + toml_text(one) + "]";
  }
  const auto* real = std::get_if<double>(&bad.data);
  if (std::is_same_v<T, std::int64_t> && real != nullptr &&
      number_text(*real).find('.') == std::string::npos)
    return "write it without a point: " + key + " = " + number_text(*real);
  const auto* number = std::get_if<std::int64_t>(&bad.data);
  if (number == nullptr) return "";
  const std::string text = toml_text(std::to_string(*number));
  if (std::is_same_v<T, std::string>) return "write it as a string: " + key + " = " + text;
  return std::is_same_v<T, std::vector<std::string>> ? "write it as a string: " + text : "";
}

inline bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// That a list has no such item; its size where it is known.
inline ErrorText no_index(const std::string& list, const std::string& item,
                          std::optional<std::size_t> size) {
  ErrorText out{.what = "key '" + join_key(list, item) + "'",
                .found = (is_number(item) ? "item " : "'") + item + (is_number(item) ? "" : "'"),
                .expected = "the number of an item of the list '" + list + "'"};
  if (size)
    out.expected += ", which has " + std::to_string(*size) + (*size == 1 ? " item" : " items");
  out.expected += ", counted from 0";
  return out;
}

}  // namespace belfry
