// SPDX-License-Identifier: MIT
#pragma once
#include <any>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "belfry/core/error.h"

namespace belfry {

// The candidate closest to `word` by edit distance, or "" when nothing is near.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// One kind of plug-in by name, e.g. all optimizer rules. Not thread-safe while being filled.
template <class Entry>
class Table {
 public:
  void add(const std::string& name, Entry entry) {
    if (!entries_.emplace(name, std::move(entry)).second)
      throw ConfigError("'" + name + "' is registered twice");
  }
  const Entry* find(const std::string& name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  // Throws ConfigError with the known names and the nearest one. `what` names the kind:
  // "optimizer".
  const Entry& at(const std::string& name, std::string_view what) const {
    if (const Entry* e = find(name)) return *e;
    throw_unknown_name(name, what, names());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [n, e] : entries_) out.push_back(n);
    return out;
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  [[noreturn]] static void throw_unknown_name(const std::string& name, std::string_view what,
                                              const std::vector<std::string>& known);
  std::map<std::string, Entry> entries_;
};

[[noreturn]] void throw_unknown_name(const std::string& name, std::string_view what,
                                     const std::vector<std::string>& known);

template <class Entry>
void Table<Entry>::throw_unknown_name(const std::string& name, std::string_view what,
                                      const std::vector<std::string>& known) {
  belfry::throw_unknown_name(name, what, known);
}

// All plug-in tables, one per entry type. A value: a copy that is extended leaves the other as it
// is.
class Registry {
 public:
  template <class Entry>
  Table<Entry>& table() {
    std::any& slot = tables_[std::type_index(typeid(Entry))];
    if (!slot.has_value()) slot = Table<Entry>();
    return *std::any_cast<Table<Entry>>(&slot);
  }
  template <class Entry>
  const Table<Entry>& table() const {
    static const Table<Entry> empty;
    const auto it = tables_.find(std::type_index(typeid(Entry)));
    return it == tables_.end() ? empty : *std::any_cast<Table<Entry>>(&it->second);
  }
  // Adds a user's network to the models that configs can name; defined in towers/model.h.
  template <class Net>
  void model(const std::string& name);

 private:
  std::map<std::type_index, std::any> tables_;  // copied with the registry
};

// A registry with every plug-in of this build. Defined in the generated register_all.cpp.
Registry builtin();

}  // namespace belfry
