// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace belfry {

// Cuts a text into rows and cells (RFC 4180). Views of it: the text must outlive the parser, and
// cells hold until the next call. A byte-order mark and blank lines at the end are left out; what
// is no UTF-8 is taken for Latin-1, and cells are UTF-8.
// Throws DataError with the line for a wrong quote, a blank line between rows, or UTF-16.
class CsvParser {
 public:
  CsvParser(std::string_view text, char delimiter, std::string file);
  bool next(std::vector<std::string_view>& cells);      // false at the end
  std::int64_t line() const noexcept { return line_; }  // where the last row began, from 1
  void rewind() noexcept;

 private:
  void row(std::vector<std::string_view>& cells);
  std::string_view quoted();
  bool end_of_line();
  [[noreturn]] void fail(std::int64_t line, const std::string& what, const std::string& fix) const;

  std::string converted_;  // of Latin-1
  std::string_view text_;  // of the file, or of this
  char delimiter_;
  std::string file_;
  std::size_t start_ = 0;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;       // of the last row
  std::int64_t next_line_ = 1;  // of at_
  std::deque<std::string> unescaped_;
};

// Without blanks and tabs around it.
std::string_view trimmed(std::string_view text);

enum class CellKind : std::uint8_t { number, missing, out_of_range, other };

// The value of a whole cell. Missing are blanks, "na", "n/a", "nan", "null", "none" and "?", in any
// case.
CellKind parse_cell(std::string_view cell, double& value);

// A cell for messages: quoted, control characters as \xNN, cut at 40 characters.
std::string cell_text(std::string_view cell);

}  // namespace belfry
