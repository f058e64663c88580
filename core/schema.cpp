// SPDX-License-Identifier: MIT
#include "belfry/core/schema.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "belfry/core/config_value_internal.h"
#include "belfry/core/error.h"
#include "belfry/core/names_text.h"
#include "belfry/core/units.h"

namespace belfry {
namespace {

std::string bounds_text(const KeyOptions& o) {
  const bool low = std::isfinite(o.min), high = std::isfinite(o.max);
  if (low && high)
    return std::string(" in ") + (o.exclusive_min ? "(" : "[") + number_text(o.min) + ", " +
           number_text(o.max) + (o.exclusive_max ? ")" : "]");
  if (low) return (o.exclusive_min ? " > " : " >= ") + number_text(o.min);
  if (high) return (o.exclusive_max ? " < " : " <= ") + number_text(o.max);
  return "";
}

std::string choices_text(const KeyOptions& o) { return "one of " + names_text(o.choices); }

bool inside(double value, const KeyOptions& o) {
  // Written so that NaN fails.
  return std::isfinite(value) && (o.exclusive_min ? value > o.min : value >= o.min) &&
         (o.exclusive_max ? value < o.max : value <= o.max);
}

std::string value_fault(bool, const KeyOptions&) { return ""; }
std::string value_fault(std::int64_t value, const KeyOptions& o) {
  return range_fault(static_cast<double>(value), o);
}
std::string value_fault(double value, const KeyOptions& o) { return range_fault(value, o); }
std::string value_fault(const std::string& value, const KeyOptions& o) {
  if (o.period) {
    try {
      Period::parse(value);
    } catch (const ConfigError& e) {
      return "found '" + value + "', expected " + e.text().expected;
    }
  }
  if (o.choices.empty() || std::count(o.choices.begin(), o.choices.end(), value) > 0) return "";
  return "found '" + value + "', expected " + choices_text(o);
}
template <class T>
std::string value_fault(const std::vector<T>& values, const KeyOptions& o) {
  for (const T& value : values)
    if (std::string fault = value_fault(value, o); !fault.empty()) return fault;
  return "";
}

}  // namespace

std::string range_fault(double value, const KeyOptions& options) {
  if (inside(value, options)) return "";
  const std::string bounds = bounds_text(options);
  return "found " + number_text(value) + ", expected a finite number" + bounds;
}

std::string expected_text(const KeyTarget& target, const KeyOptions& options) {
  const auto words = [&options](auto* value) -> std::string {
    using T = std::remove_pointer_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_same_v<T, std::int64_t>) return "integer" + bounds_text(options);
    if constexpr (std::is_same_v<T, double>) return "float" + bounds_text(options);
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
      return "list of integers" + bounds_text(options);
    if constexpr (std::is_same_v<T, std::vector<double>>)
      return "list of floats" + bounds_text(options);
    const bool list = std::is_same_v<T, std::vector<std::string>>;
    if (!options.choices.empty()) return (list ? "list, each " : "") + choices_text(options);
    if (options.period) return "a length such as \"500u\", \"2e\" or \"10krows\"";
    if (options.index) return list ? "list of strings or integers" : "string or integer";
    return list ? "list of strings" : "string";
  };
  return std::visit(words, target);
}

std::string present_fault(const KeyTarget& target, const KeyOptions& options) {
  return std::visit([&options](auto* value) { return value_fault(*value, options); }, target);
}

void Schema::validate(const std::string& context) const {
  for (const Key& key : keys_) {
    if (const std::string fault = present_fault(key.target, key.options); !fault.empty())
      throw ConfigError(context + ": '" + key.name + "': " + fault);
  }
  for (const auto& check : checks_)
    if (const std::string fault = check(); !fault.empty())
      throw ConfigError(context + ": " + fault);
}

}  // namespace belfry
