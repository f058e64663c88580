// SPDX-License-Identifier: MIT
#pragma once
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belfry/core/bound_key_internal.h"
#include "belfry/core/config_value_internal.h"
#include "belfry/core/document.h"

namespace belfry {

inline std::string bare(const std::string& key) { return "'" + key + "'"; }

inline ErrorText at_place(const ConfigPlace& place, ErrorText text) {
  text.file = place.file;
  text.line = place.line;
  text.column = place.column;
  return text;
}

// Where `word` stands in a text by itself; npos where it does not.
inline std::size_t find_word(const std::string& text, const std::string& word) {
  const auto part = [&text](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  std::size_t at = text.find(word);
  while (at != text.npos && ((at > 0 && part(at - 1)) || part(at + word.size())))
    at = text.find(word, at + 1);
  return at;
}

struct Document::Impl {
  std::string file;
  ConfigTables tables;
  std::vector<ErrorText> faults;
  std::vector<std::string> order;                      // bound tables, as bound
  std::map<std::string, std::vector<BoundKey>> bound;  // by table
  std::map<std::string, std::map<std::string, std::string>> peeked;
  std::map<std::string, ConfigPlace> lists;              // that items() took apart
  std::set<std::string> replaced;                        // items of lists that --set gave whole
  std::set<std::pair<std::string, std::string>> unread;  // keys whose values are at fault
  std::set<std::string> passed;                          // keys that are known whatever they hold

  struct Owners {
    std::string kind;
    std::vector<std::string> names;
  };
  std::map<std::pair<std::string, std::string>, Owners> owners;  // by table and key

  const ConfigValue* find(const std::string& table, const std::string& key) const;
  ConfigPlace place_of_table(const std::string& table) const;
  ConfigPlace place_of(const std::string& table, const std::string& key) const;
  bool add_item(const std::string& name, const ConfigValue& item);
  void take_words(const std::string& list);
  void refuse_items_beyond(const std::string& list, std::size_t size);
  ConfigPlace place_of_rule(const std::string& table, const Schema& schema,
                            const std::string& fault) const;
  void expect_table(const std::string& table);
  void forget(const std::string& path);
  void add_fault(ErrorText fault);
  void refuse_value(const std::string& table, const std::string& key, const ConfigValue& value,
                    const std::string& expected);
  void mark_bound(const std::string& table);
  std::optional<BoundKey> fill(const std::string& table, const Key& key);
  std::vector<std::string> known_keys(const std::string& table) const;
  bool is_known_table(const std::string& table) const;
  void find_unknown();
  ErrorText unknown_key(const std::string& table, const std::string& key) const;
  static std::string owners_text(const std::string& key, const Owners& owners);
  std::string suggestion(const std::string& table, const std::string& key) const;
  std::string text(bool comments) const;
};

}  // namespace belfry
