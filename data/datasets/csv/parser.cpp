// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "belfry/core/error.h"
#include "belfry/data/datasets/csv/parser_internal.h"

namespace belfry {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 where it is none.
std::size_t character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t n = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Longer than need be, halves of UTF-16 pairs, beyond the last character.
  const bool low = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool high = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return low || high ? 0 : n;
}

// Latin-1 as UTF-8, or "" for what is UTF-8 already.
std::string utf8_of(std::string_view text) {
  unsigned bits = 0;
  for (const char c : text) bits |= static_cast<unsigned char>(c);
  std::size_t at = bits < 0x80 ? text.size() : 0;  // of ASCII no more has to be asked
  while (at < text.size()) {
    const std::size_t n = character(text.substr(at));
    if (n == 0) break;
    at += n;
  }
  std::string out;
  if (at == text.size()) return out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) out += static_cast<char>(0xc0 | byte >> 6);
    out += byte < 0x80 ? c : static_cast<char>(0x80 | (byte & 0x3f));
  }
  return out;
}

}  // namespace

CsvParser::CsvParser(std::string_view text, char delimiter, std::string file)
    : text_(text), delimiter_(delimiter), file_(std::move(file)) {
  if (text_.substr(0, 3) == "\xef\xbb\xbf") start_ = 3;
  if (text_.substr(0, 2) == "\xff\xfe" || text_.substr(0, 2) == "\xfe\xff")
    fail(1, "the file is UTF-16 text", "save it as UTF-8");
  if (converted_ = utf8_of(text_.substr(start_)); !converted_.empty())
    text_ = converted_, start_ = 0;
  rewind();
}

void CsvParser::rewind() noexcept {
  at_ = start_;
  next_line_ = 1;
}

void CsvParser::fail(std::int64_t line, const std::string& what, const std::string& fix) const {
  throw DataError(ErrorText{.what = what, .fix = fix, .file = file_, .line = line});
}

bool CsvParser::next(std::vector<std::string_view>& cells) {
  std::int64_t blank_line = 0;
  while (at_ < text_.size()) {
    row(cells);
    const bool blank = cells.size() == 1 && trimmed(cells[0]).empty() && unescaped_.empty();
    if (blank && blank_line == 0) blank_line = line_;
    if (!blank && blank_line > 0) fail(blank_line, "a blank line lies between rows", "remove it");
    if (!blank) return true;
  }
  return false;
}

void CsvParser::row(std::vector<std::string_view>& cells) {
  cells.clear();
  unescaped_.clear();
  line_ = next_line_;
  for (;;) {
    std::size_t first = at_;
    while (first < text_.size() && text_[first] == ' ') ++first;
    if (first < text_.size() && text_[first] == '"') {
      at_ = first + 1;
      cells.push_back(quoted());
    } else {
      first = at_;
      while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' &&
             text_[at_] != '\r') {
        if (text_[at_] == '"')
          fail(line_, "a quote stands inside a cell that does not start with one",
               "quote the whole cell and double the quotes in it");
        ++at_;
      }
      cells.push_back(text_.substr(first, at_ - first));
    }
    if (end_of_line()) return;
    ++at_;  // the delimiter
  }
}

// The cell after an opening quote; leaves at_ behind the closing one and blanks after it.
std::string_view CsvParser::quoted() {
  const std::int64_t opened = next_line_;
  std::string& out = unescaped_.emplace_back();
  for (;; ++at_) {
    if (at_ == text_.size()) fail(opened, "a quote is never closed", "add the closing quote");
    const char c = text_[at_];
    if (c == '"') {
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
      ++at_;
    }
    // CRLF counts once, by its LF.
    if (c == '\n' || (c == '\r' && (at_ + 1 >= text_.size() || text_[at_ + 1] != '\n')))
      ++next_line_;
    out += c;
  }
  ++at_;
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  if (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' && text_[at_] != '\r')
    fail(next_line_, "text follows a closing quote", "double the quotes inside a quoted cell");
  return out;
}

bool CsvParser::end_of_line() {
  if (at_ >= text_.size()) return true;
  if (text_[at_] == delimiter_) return false;
  const bool pair = text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
  at_ += pair ? 2u : 1u;
  ++next_line_;
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

namespace {

bool is_missing(std::string_view cell) {
  if (cell.empty()) return true;
  if (cell.size() > 4) return false;
  std::string lower(cell);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  static constexpr std::string_view kMarks[] = {"na", "n/a", "nan", "null", "none", "?"};
  return std::find(std::begin(kMarks), std::end(kMarks), lower) != std::end(kMarks);
}

}  // namespace

CellKind parse_cell(std::string_view cell, double& value) {
  cell = trimmed(cell);
  if (is_missing(cell)) return CellKind::missing;
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  const auto result = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (result.ptr != cell.data() + cell.size()) return CellKind::other;
  if (result.ec == std::errc::result_out_of_range) return CellKind::out_of_range;
  if (result.ec != std::errc{} || std::isnan(value)) return CellKind::other;
  return std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max())
             ? CellKind::number
             : CellKind::out_of_range;
}

std::string cell_text(std::string_view cell) {
  static const char* kDigits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : cell.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte != 127)
      out += c;
    else
      out += std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
  }
  return out + (cell.size() > 40 ? "...'" : "'");
}

}  // namespace belfry
