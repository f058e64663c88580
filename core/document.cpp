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
#include "belfry/core/document_internal.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"

namespace belfry {

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

void Document::Impl::add_fault(ErrorText fault) {
  const auto same = [&fault](const ErrorText& other) {
    return std::tie(other.file, other.line, other.column, other.what) ==
           std::tie(fault.file, fault.line, fault.column, fault.what);
  };
  if (std::none_of(faults.begin(), faults.end(), same)) faults.push_back(std::move(fault));
}

void Document::Impl::refuse_value(const std::string& table, const std::string& key,
                                  const ConfigValue& value, const std::string& expected) {
  unread.insert({table, key});
  add_fault(at_place(value.place, {.what = "key " + bare(join_key(table, key)),
                                   .found = found_text(value),
                                   .expected = expected}));
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
        unread.insert({table, key.name});
        const std::string near = word ? nearest_name(*word, key.options.choices) : "";
        add_fault(at_place(&bad == value || bad.place.line == 0 ? value->place : bad.place,
                           {.what = "key " + bare(join_key(table, key.name)),
                            .found = found_text(bad),
                            .expected = out.type,
                            .fix = near.empty() ? quotes_hint<T>(key.name, bad, &bad == value)
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
    const std::string& t = table;
    const auto below = [&t](const std::string& top) { return t.starts_with(top + "."); };
    if (std::any_of(reported.begin(), reported.end(), below) ||
        std::any_of(passed.begin(), passed.end(),
                    [&](const std::string& p) { return t == p || below(p); }))
      continue;
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
        if (comments) body += key.comment();
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
    if (!read(*value, &out, {})) impl_->refuse_value(table, key, *value, "string");
  }
  return out;
}

ErrorText Document::placed(const std::string& table, const std::string& key, ErrorText text) const {
  return at_place(impl_->place_of(table, key), std::move(text));
}

void Document::bind(const std::string& table, const Schema& schema) {
  impl_->mark_bound(table);
  for (const Key& key : schema.keys()) {
    std::optional<BoundKey> filled = impl_->fill(table, key);
    impl_->bound[table].push_back(filled ? std::move(*filled)
                                         : BoundKey{key.name, "", "", "", key.options});
  }
  if (at_fault(table)) return;  // rules expect values that are in range
  for (const auto& check : schema.checks())
    if (const std::string wrong = check(); !wrong.empty())
      impl_->add_fault(at_place(impl_->place_of_rule(table, schema, wrong),
                                {.what = table.empty() ? wrong : "[" + table + "]: " + wrong}));
}

void Document::know(const std::string& table, const std::string& key) {
  impl_->mark_bound(table);
  impl_->bound[table].push_back(BoundKey{key, "", "", "", {}});
  impl_->passed.insert(join_key(table, key));
}

bool Document::at_fault(const std::string& table, const std::string& key) const {
  const auto& unread = impl_->unread;
  return std::any_of(unread.begin(), unread.end(), [&](const auto& u) {
    return u.first == table && (key.empty() || u.second == key);
  });
}

void Document::fault(const std::string& table, const std::string& key, const std::string& what) {
  if (at_fault(table, key)) return;
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
