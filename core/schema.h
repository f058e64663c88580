// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace belfry {

// Limits and help of one key. `min`/`max` bound numbers (NaN never passes), `exclusive_*` make a
// bound open; `choices` bounds strings. `period` marks a string that holds a Period of
// core/units.h: it is checked as one, and a plain integer (of updates) is accepted for it.
struct KeyOptions {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclusive_min = false;
  bool exclusive_max = false;
  bool period = false;
  bool index = false;  // a string, or strings, for which plain integers are accepted
  bool path = false;   // a string, or strings, naming files that are read
  std::vector<std::string> choices{};
  std::string unit{};
  std::string help{};
};

using KeyTarget =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::int64_t>*,
                 std::vector<double>*, std::vector<std::string>*>;

struct Key {
  std::string name;
  KeyTarget target;
  KeyOptions options;
};

// The keys of one table, bound to the members of a live struct, whose present values are the
// defaults. Declared once: parsing, --set, checking, dump and the docs all read this list.
class Schema {
 public:
  template <class T>
  Schema& key(std::string name, T& target, KeyOptions options = {}) {
    keys_.push_back({std::move(name), KeyTarget(&target), std::move(options)});
    return *this;
  }
  // A check over several keys: returns "" when fine, else what is wrong. Runs after parsing.
  Schema& rule(std::function<std::string()> check) {
    checks_.push_back(std::move(check));
    return *this;
  }
  const std::vector<Key>& keys() const { return keys_; }
  const std::vector<std::function<std::string()>>& checks() const { return checks_; }
  // Throws ConfigError for the first present value out of range: for structs filled by code.
  void validate(const std::string& context) const;

 private:
  std::vector<Key> keys_;
  std::vector<std::function<std::string()>> checks_;
};

// "" when `value` is inside the options' bounds, else "found ..., expected ...".
std::string range_fault(double value, const KeyOptions& options);

// What a key takes, in words: "integer >= 1", "float in [0, 1)", "one of 'mean', 'sum'".
std::string expected_text(const KeyTarget& target, const KeyOptions& options);

}  // namespace belfry
