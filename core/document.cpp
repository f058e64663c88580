// SPDX-License-Identifier: MIT
#include "belfry/core/document.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>

#include "belfry/core/atomic_file.h"
#include "belfry/core/config_read_internal.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"

namespace belfry {
namespace {

// What is kept of a key once its schema is bound, so that nothing points into user structs later.
struct BoundKey {
  std::string name, value, fallback, type;
  KeyOptions options;
};

std::string bare(const std::string& key) { return "'" + key + "'"; }

ErrorText at_place(const ConfigPlace& place, ErrorText text) {
  text.file = place.file;
  text.line = place.line;
  text.column = place.column;
  return text;
}

std::string comment(const BoundKey& key) {
  std::string out = "# " + key.type + ", default " + key.fallback;
  if (!key.options.unit.empty()) out += ", unit " + key.options.unit;
  if (!key.options.help.empty()) out += ". " + key.options.help;
  return out + "\n";
}

}  // namespace

struct Document::Impl {
  std::string file;
  ConfigTables tables;
  std::vector<ErrorText> faults;
  std::vector<std::string> order;                      // bound tables, as bound
  std::map<std::string, std::vector<BoundKey>> bound;  // by table
  std::map<std::string, std::map<std::string, std::string>> peeked;
  std::map<std::string, ConfigPlace> lists;  // that items() took apart
  std::set<std::string> replaced;            // items of lists that --set gave whole

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

const ConfigValue* Document::Impl::find(const std::string& table, const std::string& key) const {
  const auto t = tables.find(table);
  if (t == tables.end()) return nullptr;
  const auto k = t->second.keys.find(key);
  return k == t->second.keys.end() ? nullptr : &k->second;
}

ConfigPlace Document::Impl::place_of_table(const std::string& table) const {
  const auto t = tables.find(table);
  return t == tables.end() || table.empty() ? ConfigPlace{file, 0, 0} : t->second.place;
}

ConfigPlace Document::Impl::place_of(const std::string& table, const std::string& key) const {
  const ConfigValue* value = find(table, key);
  if (value != nullptr) return value->place;
  const auto list = lists.find(join_key(table, key));
  return list != lists.end() ? list->second : place_of_table(table);
}

// Makes the table `name` of one item of a list; keys that --set gave it stay, and nothing of the
// item where --set gave it whole. False with a fault.
bool Document::Impl::add_item(const std::string& name, const ConfigValue& item) {
  if (replaced.contains(name)) return true;
  const auto* word = std::get_if<std::string>(&item.data);
  const auto* other = std::get_if<ConfigValue::Other>(&item.data);
  if (word == nullptr && (other == nullptr || other->type != "table")) {
    add_fault(at_place(
        item.place,
        {.what = "key " + bare(name), .found = found_text(item), .expected = "a table or a name"}));
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

// Of a rule's fault: the place of the first key it names among those that are given, else the
// table's.
ConfigPlace Document::Impl::place_of_rule(const std::string& table, const Schema& schema,
                                          const std::string& fault) const {
  std::size_t first = fault.npos;
  ConfigPlace out = place_of_table(table);
  for (const Key& key : schema.keys()) {
    const ConfigValue* const value = find(table, key.name);
    const std::size_t at = value == nullptr ? fault.npos : find_word(fault, key.name);
    if (at >= first) continue;
    first = at;
    out = value->place;
  }
  return out;
}

// A value where a table belongs is a fault, and no key.
void Document::Impl::expect_table(const std::string& table) {
  const ConfigValue* const value = find("", table);
  if (value == nullptr) return;
  add_fault(at_place(value->place, {.what = "key " + bare(table),
                                    .found = found_text(*value),
                                    .expected = "a table: its keys are set one by one, as " +
                                                table + ".KEY = VALUE, or below [" + table + "]"}));
  tables[""].keys.erase(table);
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

void Document::Impl::add_fault(ErrorText fault) {
  const auto same = [&fault](const ErrorText& other) {
    return std::tie(other.file, other.line, other.column, other.what) ==
           std::tie(fault.file, fault.line, fault.column, fault.what);
  };
  if (std::none_of(faults.begin(), faults.end(), same)) faults.push_back(std::move(fault));
}

void Document::Impl::mark_bound(const std::string& table) {
  if (std::find(order.begin(), order.end(), table) == order.end()) order.push_back(table);
}

// Checks and assigns one key; nothing when it is at fault.
std::optional<BoundKey> Document::Impl::fill(const std::string& table, const Key& key) {
  const auto assign = [&](auto* target) -> std::optional<BoundKey> {
    using T = std::remove_pointer_t<decltype(target)>;
    BoundKey out{key.name, "", toml_text(*target), expected_text(target, key.options), key.options};
    if (const ConfigValue* value = find(table, key.name)) {
      T parsed{};
      if (!read(*value, &parsed, key.options) || !present_fault(&parsed, key.options).empty()) {
        const ConfigValue& bad = culprit<T>(*value, key.options);
        const auto* word = std::get_if<std::string>(&bad.data);
        const std::string near = word ? nearest_name(*word, key.options.choices) : "";
        add_fault(at_place(&bad == value || bad.place.line == 0 ? value->place : bad.place,
                           {.what = "key " + bare(join_key(table, key.name)),
                            .found = found_text(bad),
                            .expected = out.type,
                            .fix = near.empty() ? quotes_hint(key.name, bad, parsed)
                                                : "did you mean '" + near + "'?"}));
        return std::nullopt;
      }
      *target = std::move(parsed);
    }
    out.value = toml_text(*target);
    return out;
  };
  return std::visit(assign, key.target);
}

std::vector<std::string> Document::Impl::known_keys(const std::string& table) const {
  std::vector<std::string> out;
  if (const auto b = bound.find(table); b != bound.end())
    for (const BoundKey& key : b->second)
      if (std::find(out.begin(), out.end(), key.name) == out.end()) out.push_back(key.name);
  if (const auto p = peeked.find(table); p != peeked.end())
    for (const auto& [name, value] : p->second)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

bool Document::Impl::is_known_table(const std::string& table) const {
  const auto covers = [&table](const std::string& name) {
    return name == table || table.empty() || name.starts_with(table + ".");
  };
  return std::any_of(order.begin(), order.end(), covers);
}

std::string Document::Impl::owners_text(const std::string& key, const Owners& owners) {
  if (owners.names.size() == 1)
    return bare(key) + " belongs to " + owners.kind + " " + bare(owners.names[0]);
  std::string list;
  for (const std::string& name : owners.names) list += (list.empty() ? " " : ", ") + name;
  return bare(key) + " belongs to " + owners.kind + "s" + list;
}

std::string Document::Impl::suggestion(const std::string& table, const std::string& key) const {
  const std::vector<std::string> own = known_keys(table);
  const std::string near = nearest_name(key, own);
  const auto lower_equal = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  if (std::equal(near.begin(), near.end(), key.begin(), key.end(), lower_equal))
    return "did you mean '" + near + "'?";
  if (is_known_table(join_key(table, key))) return "[" + join_key(table, key) + "] is a table";
  if (const auto it = owners.find({table, key}); it != owners.end())
    return owners_text(key, it->second);
  std::string elsewhere, near_elsewhere;
  for (const std::string& other : order) {
    const std::vector<std::string> names = known_keys(other);
    const std::string title = other.empty() ? "the top level" : "[" + other + "]";
    if (std::find(names.begin(), names.end(), key) != names.end())
      elsewhere += (elsewhere.empty() ? "" : " or ") + title;
    const std::string match = nearest_name(key, names);
    if (!match.empty() && near_elsewhere.empty())
      near_elsewhere = "did you mean '" + match + "' in " + title + "?";
  }
  if (!elsewhere.empty()) return bare(key) + " belongs to " + elsewhere;
  if (!near.empty()) return "did you mean '" + near + "'?";
  return near_elsewhere;
}

ErrorText Document::Impl::unknown_key(const std::string& table, const std::string& key) const {
  ErrorText out{.what = "unknown key " + bare(join_key(table, key)), .fix = suggestion(table, key)};
  if (out.fix.empty()) {
    std::string list;
    for (const std::string& name : known_keys(table)) list += (list.empty() ? "" : ", ") + name;
    out.expected = list.empty() ? "no key here" : "one of " + list;
  }
  return out;
}

void Document::Impl::find_unknown() {
  std::set<std::string> reported;
  for (const auto& [table, content] : tables) {
    const auto below = [&t = table](const std::string& top) { return t.starts_with(top + "."); };
    if (std::any_of(reported.begin(), reported.end(), below)) continue;
    if (!is_known_table(table)) {
      reported.insert(table);
      const std::string near = nearest_name(table, order);
      std::string list;
      for (const std::string& name : order)
        if (!name.empty()) list += (list.empty() ? "[" : ", [") + name + "]";
      add_fault(
          at_place(content.place, {.what = "unknown table [" + table + "]",
                                   .expected = near.empty() ? "one of " + list : "",
                                   .fix = near.empty() ? "" : "did you mean [" + near + "]?"}));
      continue;
    }
    const std::vector<std::string> known = known_keys(table);
    for (const auto& [key, value] : content.keys)
      if (std::find(known.begin(), known.end(), key) == known.end())
        add_fault(at_place(value.place, unknown_key(table, key)));
  }
}

std::string Document::Impl::text(bool comments) const {
  std::vector<std::string> sorted = order;
  // TOML has no way back to the top level, so its keys come first.
  std::stable_partition(sorted.begin(), sorted.end(), [](const auto& t) { return t.empty(); });
  std::string out;
  for (const std::string& table : sorted) {
    std::string body;
    std::set<std::string> done;
    const auto b = bound.find(table);
    if (b != bound.end())
      for (const BoundKey& key : b->second) {
        if (!done.insert(key.name).second) continue;
        if (comments) body += comment(key);
        body += key.name + " = " + key.value + "\n";
      }
    if (const auto p = peeked.find(table); p != peeked.end())
      for (const auto& [name, value] : p->second)
        if (done.insert(name).second) body.insert(0, name + " = " + toml_text(value) + "\n");
    if (!table.empty()) out += (out.empty() ? "[" : "\n[") + table + "]\n";
    out += body;
  }
  return out;
}

Document::Document() : impl_(std::make_unique<Impl>()) {}
Document::~Document() = default;
Document::Document(Document&&) noexcept = default;

Document Document::from_file(const std::string& path) {
  constexpr std::uint64_t kLargest = 16 << 20;
  const std::vector<std::byte> bytes = read_file(path, kLargest, ErrorClass::config);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return from_text(text, path);
}

Document Document::from_text(const std::string& text, const std::string& file_name) {
  Document out;
  out.impl_->file = file_name;
  out.impl_->tables = parse_toml(text, file_name);
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

void Document::set_string(const std::string& key, const std::string& value,
                          const std::string& origin) {
  const std::size_t dot = key.rfind('.');
  const std::string table = dot == std::string::npos ? "" : key.substr(0, dot);
  const ConfigPlace place{origin, 0, 0};
  ConfigTable& target = impl_->tables.try_emplace(table, ConfigTable{place, {}}).first->second;
  target.keys.insert_or_assign(key.substr(dot + 1), ConfigValue{value, place});
}

bool Document::wants_table(const std::string& table) {
  impl_->expect_table(table);
  return has_table(table);
}

bool Document::has_table(const std::string& table) const { return impl_->tables.contains(table); }

bool Document::has_key(const std::string& table, const std::string& key) const {
  return impl_->find(table, key) != nullptr;
}

bool Document::differs(const std::string& table, const std::string& key,
                       const std::string& other) const {
  const ConfigValue* mine = impl_->find(table, key);
  const ConfigValue* theirs = impl_->find(other, key);
  if (mine == nullptr || theirs == nullptr) return mine != nullptr;
  const auto* a = std::get_if<std::vector<ConfigValue>>(&mine->data);
  const auto* b = std::get_if<std::vector<ConfigValue>>(&theirs->data);
  if (a == nullptr || b == nullptr) return found_text(*mine) != found_text(*theirs);
  return !std::equal(a->begin(), a->end(), b->begin(), b->end(),
                     [](const auto& x, const auto& y) { return found_text(x) == found_text(y); });
}

void Document::note_owner(const std::string& table, const std::string& key, const std::string& kind,
                          const std::string& owner) {
  Impl::Owners& owners = impl_->owners[{table, key}];
  owners.kind = kind;
  if (std::find(owners.names.begin(), owners.names.end(), owner) == owners.names.end())
    owners.names.push_back(owner);
}

std::string Document::peek_string(const std::string& table, const std::string& key,
                                  const std::string& fallback) {
  impl_->mark_bound(table);
  std::string& out = impl_->peeked[table][key];
  out = fallback;
  if (const ConfigValue* value = impl_->find(table, key)) {
    if (!read(*value, &out, {}))
      impl_->add_fault(at_place(value->place, {.what = "key " + bare(join_key(table, key)),
                                               .found = found_text(*value),
                                               .expected = "string"}));
  }
  return out;
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
        if (impl_->add_item(name(), item)) out.push_back(name());
        ++number;
      }
      impl_->refuse_items_beyond(join_key(table, key), number);
    } else {
      impl_->add_fault(at_place(list.place, {.what = "key " + bare(join_key(table, key)),
                                             .found = found_text(list),
                                             .expected = "a list of tables and names"}));
    }
    return out;
  }
  for (; impl_->tables.contains(name()); ++number) out.push_back(name());
  impl_->refuse_items_beyond(join_key(table, key), number);
  return out;
}

ErrorText Document::placed(const std::string& table, const std::string& key, ErrorText text) const {
  return at_place(impl_->place_of(table, key), std::move(text));
}

void Document::bind(const std::string& table, const Schema& schema) {
  impl_->mark_bound(table);
  const std::size_t before = impl_->faults.size();
  for (const Key& key : schema.keys()) {
    std::optional<BoundKey> filled = impl_->fill(table, key);
    impl_->bound[table].push_back(filled ? std::move(*filled)
                                         : BoundKey{key.name, "", "", "", key.options});
  }
  if (impl_->faults.size() > before) return;  // rules expect values that are in range
  for (const auto& check : schema.checks())
    if (const std::string wrong = check(); !wrong.empty())
      impl_->add_fault(at_place(impl_->place_of_rule(table, schema, wrong),
                                {.what = table.empty() ? wrong : "[" + table + "]: " + wrong}));
}

void Document::fault(const std::string& table, const std::string& key, const std::string& what) {
  impl_->add_fault(at_place(impl_->place_of(table, key),
                            {.what = "key " + bare(join_key(table, key)) + ": " + what}));
}

void Document::finish() {
  impl_->find_unknown();
  std::vector<ErrorText>& faults = impl_->faults;
  if (faults.empty()) return;
  std::stable_sort(faults.begin(), faults.end(), [](const ErrorText& a, const ErrorText& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  if (faults.size() == 1) throw ConfigError(faults.front());
  std::string all = std::to_string(faults.size()) + " faults in the config";
  for (const ErrorText& fault : faults) all += std::string("\n  ") + ConfigError(fault).what();
  throw ConfigError(all);
}

std::string Document::dump() const { return impl_->text(false); }

std::string Document::describe() const { return impl_->text(true); }

const std::string& Document::file() const { return impl_->file; }

}  // namespace belfry
