// SPDX-License-Identifier: MIT
#pragma once
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

// All plug-in tables, one per entry type. A value: what is added to a copy is not in the original.
class Registry {
 public:
  Registry() = default;
  Registry(const Registry& other) {
    for (const auto& [type, slot] : other.tables_)
      tables_[type] = {slot.copy(slot.table.get()), slot.copy};
  }
  Registry(Registry&&) = default;
  Registry& operator=(Registry other) noexcept {
    tables_.swap(other.tables_);
    return *this;
  }
  ~Registry() = default;

  template <class Entry>
  Table<Entry>& table() {
    Slot& slot = tables_[std::type_index(typeid(Entry))];
    if (!slot.table)
      slot = {std::make_shared<Table<Entry>>(), [](const void* from) -> std::shared_ptr<void> {
                return std::make_shared<Table<Entry>>(*static_cast<const Table<Entry>*>(from));
              }};
    return *static_cast<Table<Entry>*>(slot.table.get());
  }
  template <class Entry>
  const Table<Entry>& table() const {
    static const Table<Entry> empty;
    const auto it = tables_.find(std::type_index(typeid(Entry)));
    return it == tables_.end() ? empty : *static_cast<const Table<Entry>*>(it->second.table.get());
  }
  // Adds a user's network to the models that configs can name; defined in towers/model.h.
  template <class Net>
  void model(const std::string& name);

 private:
  struct Slot {
    std::shared_ptr<void> table;
    std::shared_ptr<void> (*copy)(const void*) = nullptr;
  };
  std::map<std::type_index, Slot> tables_;
};

// A registry with every plug-in of this build. Defined in the generated register_all.cpp.
Registry builtin();

}  // namespace belfry
