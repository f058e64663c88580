// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/core/schema.h"

namespace belfry {

// A parsed config file with --set overrides laid over it. Schemas are bound table by table; faults
// are collected and thrown together by finish(), each with file, line, column, key, nearest name.
// Owns its text; one thread.
class Document {
 public:
  // Reads and parses. Throws ConfigError when the file is missing or is not TOML.
  static Document from_file(const std::string& path);
  static Document from_text(const std::string& text, const std::string& file_name);
  ~Document();
  Document(Document&&) noexcept;

  // "optimizer.lr=0.1": the value follows TOML's grammar; what is not TOML is taken as a string.
  // The value takes the place of what was there: of a whole table or list, too. Before bind().
  void set(const std::string& assignment);
  // The string `value` for `table.key`; messages name `origin`, the flag it comes from.
  void set_string(const std::string& key, const std::string& value, const std::string& origin);
  bool has_table(const std::string& table) const;  // "" is the top level
  bool wants_table(const std::string& table);      // the same; a value in its place becomes a fault
  bool has_key(const std::string& table, const std::string& key) const;  // given, not a default
  // Whether `table` gives `key` a value other than the one in table `other`.
  bool differs(const std::string& table, const std::string& key, const std::string& other) const;
  // Says that `key` would belong to `table` with another plug-in there, "model 'mlp'": for messages
  // about unknown keys.
  void note_owner(const std::string& table, const std::string& key, const std::string& kind,
                  const std::string& owner);
  // The value of `table.key` when it is a string there, else `fallback`; marks the key as known.
  // This is how a plug-in's name is read before its schema is known.
  std::string peek_string(const std::string& table, const std::string& key,
                          const std::string& fallback);
  // The tables "table.key.0", "table.key.1", ... that a list of tables stands for, be it written as
  // `key = [{...}, "x"]`, as [[table.key]] or as those tables; the string "x" is {name = "x"}. The
  // list's own key is known from then on; items of other types become faults.
  std::vector<std::string> items(const std::string& table, const std::string& key);
  // `text` with the place of `table.key`, or of the table where the key is not given.
  ErrorText placed(const std::string& table, const std::string& key, ErrorText text) const;
  // Fills the schema's targets from `table`, checks them and then the rules, and keeps no pointer
  // to them. A key's type is strict (8.0 is no integer, "8" no number) but an integer may stand for
  // a float. Faults leave the default in place; unknown keys become faults. Binding one table
  // several times is allowed: a key is unknown only when no binding declares it.
  void bind(const std::string& table, const Schema& schema);
  // Counts `key`, and tables below it, as known whatever it holds.
  void know(const std::string& table, const std::string& key);
  // Whether the value of a key, "" for any of the table, is a fault already: what follows from its
  // default is none of the user's. Rules of a table and fault() say nothing then.
  bool at_fault(const std::string& table, const std::string& key = "") const;
  // Records a fault found by the caller at `table.key`.
  void fault(const std::string& table, const std::string& key, const std::string& what);
  // Throws one ConfigError that lists every fault, unknown tables included. Then usable for dump().
  void finish();
  // The effective config as TOML, every key of every bound schema with its value.
  std::string dump() const;
  // dump() with type, default, range, unit and help as comments.
  std::string describe() const;
  const std::string& file() const;

 private:
  struct Impl;
  Document();
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry
