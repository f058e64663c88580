// SPDX-License-Identifier: MIT
#include "belfry/core/formats/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "belfry/core/error.h"

namespace belfry::numpy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 20;
constexpr std::size_t kMostAxes = 32;

[[noreturn]] void refuse(const std::string& file, const std::string& what,
                         const std::string& found = "", const std::string& expected = "",
                         const std::string& fix = "") {
  throw DataError(
      ErrorText{.what = what, .found = found, .expected = expected, .fix = fix, .file = file});
}

// Reads the header's dictionary: string keys; values are strings, True, False and tuples of
// integers. Everything else is not understood.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void parse(Header& out) {
    take('{');
    while (!next('}')) {
      const std::string key = string();
      take(':');
      if (key == "descr")
        out.type = type();
      else if (key == "fortran_order")
        out.fortran = boolean();
      else if (key == "shape")
        out.shape = tuple();
      else
        fail("key '" + key + "'");
      if (!seen_.empty() && std::find(seen_.begin(), seen_.end(), key) != seen_.end())
        fail("'" + key + "' twice");
      seen_.push_back(key);
      if (!next(',')) {
        take('}');
        break;
      }
    }
    blanks();
    if (at_ != text_.size()) fail("text behind the dictionary");
    if (seen_.size() != 3) fail(std::to_string(seen_.size()) + " keys");
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool next(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!next(c)) fail(at_ < text_.size() ? std::string("'") + text_[at_] + "'" : "its end");
  }
  [[noreturn]] void fail(const std::string& found) {
    refuse(file_, "the npy header cannot be read", found + " at byte " + std::to_string(at_),
           "{'descr': ..., 'fortran_order': ..., 'shape': ...}",
           "the file is damaged; save the array again with numpy.save");
  }
  std::string string() {
    blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("no string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail("an open string");
    const std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  std::string type() {
    blanks();
    if (at_ < text_.size() && text_[at_] == '[')
      refuse(file_, "the array holds records", "a type of several fields", "numbers",
             "save each field as an array of its own");
    return string();
  }
  bool boolean() {
    blanks();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    fail("neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> out;
    take('(');
    while (!next(')')) {
      blanks();
      std::int64_t extent = -1;
      const auto [end, status] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (status != std::errc() || extent < 0 || out.size() == kMostAxes) fail("no extent");
      at_ = static_cast<std::size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2's long integers
      out.push_back(extent);
      if (!next(',')) {
        take(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::vector<std::string> seen_;
};

void read_type(Header& h, const std::string& file) {
  const std::string expected = "floats of 2, 4 or 8 bytes, integers of 1 to 8, or booleans";
  if (h.type.find('O') != h.type.npos)
    refuse(file, "the array holds Python objects, which are never loaded", "type '" + h.type + "'",
           expected, "convert it to numbers before saving, e.g. with .astype('float32')");
  const std::string_view t = h.type;
  const std::size_t size = t.size() == 3 && t[2] >= '0' ? static_cast<std::size_t>(t[2] - '0') : 0;
  const bool known =
      t.size() == 3 && std::string_view("<>|").find(t[0]) != t.npos &&
      ((t[1] == 'f' && (size == 2 || size == 4 || size == 8)) ||
       ((t[1] == 'i' || t[1] == 'u') && (size == 1 || size == 2 || size == 4 || size == 8)) ||
       (t[1] == 'b' && size == 1)) &&
      (t[0] != '|' || size == 1);
  if (!known)
    refuse(file, "the array's type is not supported", "'" + h.type + "'", expected,
           "convert it before saving, e.g. with .astype('float32')");
  h.kind = t[1];
  h.item = size;
  h.big_endian = t[0] == '>' && size > 1;
}

}  // namespace

std::uint64_t header_bytes(std::span<const std::uint8_t> start, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(start.data()), start.size());
  if (head.substr(0, kMagic.size()) != kMagic)
    refuse(file, start.empty() ? "the file is empty" : "not an npy file",
           start.empty() ? "0 bytes" : "other first bytes", "\\x93NUMPY",
           "save the array with numpy.save");
  if (start.size() < 10)
    refuse(file, "the npy header is cut", std::to_string(start.size()) + " bytes", "at least 10",
           "fetch the file again");
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    refuse(file, "the npy version is unknown",
           std::to_string(version) + "." + std::to_string(start[7]), "1.0, 2.0 or 3.0");
  if (version == 1) return 10 + (start[8] | std::uint64_t{start[9]} << 8);
  if (start.size() < kStart)
    refuse(file, "the npy header is cut", std::to_string(start.size()) + " bytes", "at least 12",
           "fetch the file again");
  std::uint64_t length = 0;
  for (std::size_t i = 4; i-- > 0;) length = length << 8 | start[8 + i];
  if (length > kLargestHeader)
    refuse(file, "the npy header is too long", std::to_string(length) + " bytes",
           "at most " + std::to_string(kLargestHeader));
  return 12 + length;
}

Header parse_header(std::span<const std::uint8_t> header, const std::string& file) {
  Header out;
  out.data_at = header_bytes(header.first(std::min<std::size_t>(header.size(), kStart)), file);
  if (header.size() < out.data_at)
    refuse(file, "the npy header is cut", std::to_string(header.size()) + " bytes",
           std::to_string(out.data_at), "fetch the file again");
  const std::size_t from = header[6] == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + from,
                              static_cast<std::size_t>(out.data_at) - from);
  Parser(text, file).parse(out);
  read_type(out, file);
  out.bytes = out.item;
  for (const std::int64_t extent : out.shape)
    if (__builtin_mul_overflow(out.bytes, static_cast<std::uint64_t>(extent), &out.bytes))
      refuse(file, "the array's size does not fit 64 bits");
  return out;
}

std::string encode_header(const std::string& type, const std::vector<std::int64_t>& shape) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : shape) text += std::to_string(extent) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  if (shape.size() == 1) text.resize(text.size() - 1);
  text += "), }";
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
  text += '\n';
  const std::size_t n = text.size();
  return std::string(kMagic) + std::string{'\1', '\0', char(n & 255), char(n >> 8)} + text;
}

}  // namespace belfry::numpy
