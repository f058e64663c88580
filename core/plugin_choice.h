// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/core/document.h"
#include "belfry/core/registry.h"

namespace belfry {

// Makes every key of every plug-in of a kind known in `table`, whose own plug-in is not.
template <class Entry>
void know_all_keys(Document& document, const Registry& registry, const std::string& table) {
  for (const auto& [other, entry] : registry.table<Entry>()) {
    auto plugin = entry.make();
    Schema keys;
    plugin->declare(keys);
    for (const Key& key : keys.keys()) document.know(table, key.name);
  }
}

// A fresh plug-in of the kind that `table`.name asks for; `kind` names it in messages, "optimizer".
// For a name that is not known, or missing where there is no fallback, a fault is recorded, null
// returned, and every plug-in's keys count as known, so that one mistake gives one message.
template <class Entry>
auto choose_plugin(Document& document, const Registry& registry, const std::string& table,
                   const std::string& kind, const std::string& fallback)
    -> decltype(registry.table<Entry>().at(fallback, kind).make()) {
  const auto& known = registry.table<Entry>();
  const std::string name = document.peek_string(table, "name", fallback);
  if (document.at_fault(table, "name")) {
    know_all_keys<Entry>(document, registry, table);
    return nullptr;
  }
  try {
    auto chosen = known.at(name, kind).make();
    for (const auto& [other, entry] : known) {
      if (other == name) continue;
      Schema keys;
      const auto plugin = entry.make();
      plugin->declare(keys);
      for (const Key& key : keys.keys()) document.note_owner(table, key.name, kind, other);
    }
    return chosen;
  } catch (const ConfigError& error) {
    std::string list;
    for (const std::string& one : known.names()) list += (list.empty() ? "" : ", ") + one;
    document.fault(table, "name",
                   name.empty() ? "missing: expected the name of a " + kind + ", one of " + list
                                : error.what());
  }
  know_all_keys<Entry>(document, registry, table);
  return nullptr;
}

}  // namespace belfry
