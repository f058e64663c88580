// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "belfry/core/error.h"
#include "belfry/core/key_text.h"
#include "belfry/core/names_text.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/datasets/csv/parser_internal.h"
#include "belfry/data/datasets/csv/table_internal.h"

namespace belfry {
namespace {

class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options, std::string_view text,
            const std::vector<std::string>& like)
      : path_(path),
        options_(options),
        like_(like),
        parser_(text, options.delimiter == "tab" ? '\t' : options.delimiter[0], path) {}

  CsvTable read() {
    std::vector<std::string_view>& cells = cells_;
    CsvTable table;
    if (!parser_.next(cells)) return table;
    const bool header = has_header(cells);
    for (std::size_t c = 0; c < cells.size(); ++c)
      names_.push_back(header ? std::string(trimmed(cells[c])) : std::to_string(c));
    named_ = header;
    choose_columns();
    table.features = features_.size();
    table.targets = options_.targets.size();
    for (const std::size_t c : features_)
      if (named_) table.names.push_back(names_[c]);
    if (!header) parser_.rewind();
    while (parser_.next(cells)) {
      if (cells.size() != names_.size())
        fail("a row has another number of cells than the first", std::to_string(cells.size()),
             std::to_string(names_.size()),
             cells.size() < names_.size() ? "a delimiter is missing"
                                          : "quote cells that contain the delimiter");
      add_row(cells, table);
    }
    return table;
  }

 private:
  // What to do when the row at hand is cut at another character than the one set; else "".
  std::string delimiter_hint() const {
    const auto holds = [this](char c) {
      return std::any_of(cells_.begin(), cells_.end(),
                         [c](std::string_view cell) { return cell.find(c) != cell.npos; });
    };
    if (options_.delimiter == "," && holds(';'))
      return "the line contains ';': set delimiter = \";\"";
    if (options_.delimiter != "tab" && holds('\t'))
      return "the line contains tabs: set delimiter = \"tab\"";
    if (options_.delimiter != "," && cells_.size() == 1 && holds(','))
      return "the line contains ',': set delimiter = \",\"";
    return "";
  }

  // Digits, one comma, digits.
  static bool decimal_comma(std::string_view cell) {
    std::string point(cell);
    const std::size_t comma = point.find(',');
    if (comma == point.npos) return false;
    point[comma] = '.';
    double value = 0;
    return parse_cell(point, value) == CellKind::number;
  }

  [[noreturn]] void fail(std::string what, std::string found, std::string expected,
                         std::string fix) const {
    if (const std::string other = delimiter_hint(); !other.empty()) fix = other;
    throw DataError(ErrorText{.what = std::move(what),
                              .found = std::move(found),
                              .expected = std::move(expected),
                              .fix = std::move(fix),
                              .file = path_,
                              .line = parser_.line()});
  }

  bool has_header(const std::vector<std::string_view>& cells) const {
    if (options_.header != "auto") return options_.header == "yes";
    bool numbers = false, words = false;
    for (const std::string_view cell : cells) {
      double value = 0;
      const CellKind kind = parse_cell(cell, value);
      words = words || kind == CellKind::other;
      numbers = numbers || kind == CellKind::number || kind == CellKind::out_of_range;
    }
    if (numbers && words)
      fail("the first row holds numbers and words, so it may be a header or a damaged row",
           cell_text(cells[0]) + " first", "only names or only numbers",
           "set header = \"yes\" or \"no\"");
    return words;
  }

  // The column with this name, else with this index.
  std::size_t column(const std::string& text, const char* key) const {
    const auto found = named_ ? std::find(names_.begin(), names_.end(), text) : names_.end();
    if (found != names_.end()) {
      if (std::find(found + 1, names_.end(), text) != names_.end())
        fail("two columns have the name that `" + std::string(key) + "` asks for",
             "'" + text + "' twice", "one", "use the index of the column");
      return static_cast<std::size_t>(found - names_.begin());
    }
    const auto n = static_cast<std::int64_t>(names_.size());
    std::int64_t index = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (code == std::errc{} && end == text.data() + text.size() && index < n && index >= -n)
      return static_cast<std::size_t>(index < 0 ? index + n : index);
    std::string have = count_text(n, "column");
    if (code != std::errc::invalid_argument && end == text.data() + text.size())
      fail("`" + std::string(key) + "` is a column number out of range", text,
           "one in [" + std::to_string(-n) + ", " + std::to_string(n - 1) + "]: " + have +
               (named_ ? ", none of them called so" : ""),
           "columns count from 0, or from the end with -1, -2, ...");
    const std::string near = named_ ? nearest_name(text, names_) : "";
    if (named_)
      have += ": " + names_text({names_.begin(),
                                 names_.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min<std::size_t>(names_.size(), 20))});
    fail("`" + std::string(key) + "` names a column that is not there", "'" + text + "'", have,
         near.empty() ? "" : "did you mean '" + near + "'?");
  }

  // One more of a list, under whatever name or number.
  void add_column(const std::string& text, const char* key, std::vector<std::size_t>& list) const {
    const std::size_t c = column(text, key);
    const auto same = std::find(list.begin(), list.end(), c);
    if (same != list.end())
      fail("`" + std::string(key) + "` names a column twice",
           column_text(c) + " as item " + std::to_string(same - list.begin()) + " and as '" + text +
               "'",
           "each column once", "");
    list.push_back(c);
  }

  // The columns that are no features.
  std::vector<std::size_t> choose_answers() {
    std::vector<std::size_t> out;
    if (options_.unlabelled) {
      std::vector<std::string> wanted = options_.targets;
      wanted.push_back(options_.label);
      for (std::size_t c = 0; named_ && c < names_.size(); ++c)
        if (std::find(wanted.begin(), wanted.end(), names_[c]) != wanted.end()) out.push_back(c);
      return out;
    }
    for (const std::string& t : options_.targets) add_column(t, "targets", targets_);
    if (!targets_.empty()) return targets_;
    label_ = options_.label.empty() ? names_.size() - 1 : column(options_.label, "label");
    return {label_};
  }

  bool has_column(const std::string& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  // Takes the columns that the model was trained on, by their names, wherever they are. False where
  // names say nothing: without a header here or there, or where `features` names others that stand
  // for them.
  bool by_trained_names() {
    if (!named_ || like_.empty()) return false;
    const bool all = std::all_of(like_.begin(), like_.end(),
                                 [this](const std::string& name) { return has_column(name); });
    const bool named = std::any_of(options_.features.begin(), options_.features.end(),
                                   [this](const std::string& f) { return has_column(f); });
    if (named && !all) return false;
    if (named && options_.features != like_)
      fail("`features` are not those of the model", names_text(options_.features),
           names_text(like_), "leave `features` out: the model's are found by name");
    for (const std::string& name : like_) {
      if (!has_column(name))
        fail("a column that the model was trained on is not there", names_text(names_),
             "'" + name + "' among them",
             "name the columns as in the model's [data]; `features` may name others for them");
      features_.push_back(column(name, "features"));
    }
    return true;
  }

  void choose_columns() {
    const std::vector<std::size_t> answers = choose_answers();
    if (!by_trained_names())
      for (const std::string& f : options_.features) add_column(f, "features", features_);
    for (const std::size_t c : answers)
      if (std::find(features_.begin(), features_.end(), c) != features_.end())
        fail(targets_.empty() ? "the label column is among the features"
                              : "a target column is among the features",
             "'" + names_[c] + "'", "two different columns", "");
    const bool rest = features_.empty();
    for (std::size_t c = 0; rest && c < names_.size(); ++c)
      if (std::find(answers.begin(), answers.end(), c) == answers.end()) features_.push_back(c);
    if (features_.empty())
      fail("the file has no feature columns",
           count_text(static_cast<std::int64_t>(names_.size()), "column"),
           "at least " + std::to_string(answers.size() + 1), "check `delimiter`");
    const std::vector<std::int64_t>& shape = options_.shape;
    const auto n = static_cast<std::int64_t>(features_.size());
    if (!shape.empty() && Shape(shape).size() != n)
      fail("`shape` does not hold the features",
           Shape(shape).text() + ", " + std::to_string(Shape(shape).size()) + " values",
           count_text(n, "feature"), "");
  }

  std::string column_text(std::size_t c) const {
    return named_ ? "column '" + names_[c] + "'" : "column " + names_[c] + " (from 0)";
  }

  // False when the cell is missing and such rows are dropped.
  bool value(std::string_view cell, std::size_t c, double& out) const {
    switch (parse_cell(cell, out)) {
      case CellKind::number:
        return true;
      case CellKind::missing:
        if (options_.missing == "drop") return false;
        fail("a value is missing in " + column_text(c), cell_text(cell), "a number",
             "fill it in, or set missing = \"drop\" to leave such rows out");
      case CellKind::out_of_range:
        fail("a number in " + column_text(c) + " does not fit f32", cell_text(cell),
             "a finite number up to 3.4e38", "");
      case CellKind::other:
        break;
    }
    fail("a cell in " + column_text(c) + " is not a number", cell_text(cell), "a number",
         decimal_comma(cell) ? "decimals are written with a point: 0.5"
         : c == label_       ? names_hint()
                             : features_hint());
  }

  // How to leave columns of words out: the features of the row at hand that are numbers.
  std::string features_hint() const {
    constexpr std::size_t kMost = 20;
    std::vector<std::string> numbers;
    double ignored = 0;
    for (const std::size_t c : features_)
      if (parse_cell(cells_[c], ignored) == CellKind::number) numbers.push_back(names_[c]);
    if (numbers.empty()) return "";
    return "to leave such columns out, name those of numbers: features = " +
           (numbers.size() <= kMost ? key_text(KeyTarget(&numbers)) : "[...]");
  }

  // The label of a row by its number, or by its name.
  bool class_of(std::string_view cell, double& out) const {
    const std::vector<std::string>& names = options_.names;
    if (names.empty()) return value(cell, label_, out);
    const std::string word(trimmed(cell));
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end() && parse_cell(cell, out) == CellKind::missing)
      return value(cell, label_, out);
    if (found == names.end()) {
      const std::string near = nearest_name(word, names);
      fail("a label in " + column_text(label_) + " is no class of `names`", cell_text(cell),
           names_text(names), near.empty() ? "add it to `names`" : "did you mean '" + near + "'?");
    }
    out = static_cast<double>(found - names.begin());
    return true;
  }

  // What to write where the label column holds words: all of them, where they are few.
  std::string names_hint() const {
    constexpr std::size_t kMost = 50;
    std::set<std::string> words;
    CsvParser rest = parser_;
    rest.rewind();
    std::vector<std::string_view> cells;
    if (named_) rest.next(cells);
    double ignored = 0;
    while (words.size() <= kMost && rest.next(cells))
      if (label_ < cells.size() && parse_cell(cells[label_], ignored) != CellKind::missing)
        words.insert(std::string(trimmed(cells[label_])));
    if (words.size() > kMost)
      return "labels must be integers from 0, or words that `names` lists; is it the label column?";
    std::vector<std::string> names(words.begin(), words.end());
    return "if these are the classes, set names = " + key_text(KeyTarget(&names));
  }

  void add_row(const std::vector<std::string_view>& cells, CsvTable& table) const {
    const std::size_t before = table.values.size(), exact_before = table.exact.size();
    bool complete = true;
    for (const std::size_t c : features_) {
      double v = 0;
      complete = value(cells[c], c, v) && complete;
      const double scaled = (v / options_.scale - options_.mean) / options_.stddev;
      if (std::abs(scaled) > static_cast<double>(std::numeric_limits<float>::max()))
        fail("a number in " + column_text(c) + " does not fit f32 after scaling",
             cell_text(cells[c]), "a finite number up to 3.4e38",
             "check `scale`, `mean` and `std`");
      if (options_.standardize)
        table.exact.push_back(scaled);
      else
        table.values.push_back(static_cast<float>(scaled));
    }
    double label = 0;
    if (label_ != kNone) complete = class_of(cells[label_], label) && complete;
    const std::size_t targets_before = table.target_values.size();
    for (std::size_t k = 0; k < options_.targets.size(); ++k) {
      double v = 0;
      if (!targets_.empty()) complete = value(cells[targets_[k]], targets_[k], v) && complete;
      table.target_values.push_back(static_cast<float>(v));
    }
    if (!complete) {
      table.values.resize(before);
      table.exact.resize(exact_before);
      table.target_values.resize(targets_before);
      ++table.dropped;
      return;
    }
    if (label != std::floor(label) || std::abs(label) > 2147483647.0)
      fail("a label in " + column_text(label_) + " is not a class number",
           "label " + cell_text(cells[label_]) + " in row " + std::to_string(table.labels.size()),
           options_.labels.classes > 0
               ? "an integer in [0," + std::to_string(options_.labels.classes) + ")"
               : "an integer from 0",
           "");
    table.numbers.push_back(std::ssize(table.labels) + table.dropped);
    table.labels.push_back(static_cast<std::int32_t>(label));
    table.lines.push_back(parser_.line());
  }

  const std::string& path_;
  const CsvOptions& options_;
  const std::vector<std::string>& like_;
  CsvParser parser_;
  std::vector<std::string_view> cells_;  // of the row at hand
  std::vector<std::string> names_;
  bool named_ = false;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t label_ = kNone;
  std::vector<std::size_t> features_, targets_;
};

}  // namespace

CsvTable read_csv(const std::string& path, const CsvOptions& options, std::string_view text,
                  const std::vector<std::string>& like) {
  return CsvReader(path, options, text, like).read();
}

}  // namespace belfry
