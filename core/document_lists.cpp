// SPDX-License-Identifier: MIT
// Lists of tables, and values that take the place of tables and lists.
#include "belfry/core/config_read_internal.h"
#include "belfry/core/document_internal.h"

namespace belfry {

// Makes the table `name` of one item of a list; keys that --set gave it stay, and nothing of the
// item where --set gave it whole. False with a fault.
bool Document::Impl::add_item(const std::string& name, const ConfigValue& item) {
  if (replaced.contains(name)) return true;
  const auto* word = std::get_if<std::string>(&item.data);
  const auto* other = std::get_if<ConfigValue::Other>(&item.data);
  if (word == nullptr && (other == nullptr || other->type != "table")) {
    refuse_value("", name, item, "a table or a name");
    return false;
  }
  ConfigTable& table = tables[name];
  table.place = item.place;
  if (word != nullptr) table.keys.emplace("name", item);
  if (other == nullptr) return true;
  for (const ConfigEntry& entry : other->keys) {
    const auto* inner = std::get_if<ConfigValue::Other>(&entry.value.data);
    if (inner != nullptr && inner->type == "table")
      add_item(join_key(name, entry.key), entry.value);
    else
      table.keys.emplace(entry.key, entry.value);
  }
  return true;
}

// --set list.3=word gives an item whole.
void Document::Impl::take_words(const std::string& list) {
  const auto found = tables.find(list);
  if (found == tables.end()) return;
  const std::map<std::string, ConfigValue> keys = std::move(found->second.keys);
  tables.erase(found);
  for (const auto& [key, value] : keys)
    if (!is_number(key))
      add_fault(at_place(value.place, no_index(list, key, std::nullopt)));
    else if (add_item(join_key(list, key), value))
      replaced.insert(join_key(list, key));
}

// Tables "list.7" and "list.x" of a list of fewer items become faults, once each.
void Document::Impl::refuse_items_beyond(const std::string& list, std::size_t size) {
  std::map<std::string, ConfigPlace> beyond;
  for (const auto& [name, table] : tables) {
    if (!name.starts_with(list + ".")) continue;
    const std::string item =
        name.substr(list.size() + 1, name.find('.', list.size() + 1) - list.size() - 1);
    bool inside = false;
    for (std::size_t i = 0; i < size && !inside; ++i) inside = item == std::to_string(i);
    if (!inside) beyond.emplace(item, table.place);
  }
  for (const auto& [item, place] : beyond) {
    add_fault(at_place(place, no_index(list, item, size)));
    forget(join_key(list, item));
  }
}

// Removes the key, table or list of tables at a dotted path.
void Document::Impl::forget(const std::string& path) {
  std::erase_if(tables, [&path](const auto& item) {
    return item.first == path || item.first.starts_with(path + ".");
  });
  std::erase_if(replaced, [&path](const std::string& item) {
    return item == path || item.starts_with(path + ".");
  });
  const std::size_t dot = path.rfind('.');
  const auto parent = tables.find(dot == path.npos ? "" : path.substr(0, dot));
  if (parent != tables.end()) parent->second.keys.erase(path.substr(dot + 1));
}

std::vector<std::string> Document::items(const std::string& table, const std::string& key) {
  impl_->mark_bound(table);
  std::vector<std::string> out;
  std::size_t number = 0;
  const auto name = [&] { return join_key(table, key) + "." + std::to_string(number); };
  impl_->take_words(join_key(table, key));
  if (const ConfigValue* value = impl_->find(table, key)) {
    const ConfigValue list = *value;
    impl_->lists[join_key(table, key)] = list.place;
    impl_->tables[table].keys.erase(key);
    if (const auto* items = std::get_if<std::vector<ConfigValue>>(&list.data)) {
      for (const ConfigValue& item : *items) {
        if (impl_->add_item(name(), item))
          out.push_back(name());
        else
          impl_->unread.insert({table, key});
        ++number;
      }
      impl_->refuse_items_beyond(join_key(table, key), number);
    } else {
      impl_->refuse_value(table, key, list, "a list of tables and names");
    }
    return out;
  }
  for (; impl_->tables.contains(name()); ++number) out.push_back(name());
  impl_->refuse_items_beyond(join_key(table, key), number);
  return out;
}

void Document::set(const std::string& assignment) {
  ConfigTables assigned = parse_assignment(assignment);
  std::string path = assignment.substr(0, assignment.find('='));
  path.erase(0, path.find_first_not_of(" \t"));
  path.erase(path.find_last_not_of(" \t") + 1);
  impl_->forget(path);
  if (assigned.contains(path)) impl_->replaced.insert(path);
  for (auto& [table, content] : assigned) {
    ConfigTable& target =
        impl_->tables.try_emplace(table, ConfigTable{content.place, {}}).first->second;
    for (auto& [key, value] : content.keys) target.keys.insert_or_assign(key, std::move(value));
  }
}

}  // namespace belfry
