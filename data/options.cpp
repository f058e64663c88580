// SPDX-License-Identifier: MIT
#include "belfry/data/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "belfry/core/key_error.h"
#include "belfry/data/byte_file.h"

namespace belfry {

void RowRange::declare(Schema& schema) {
  schema
      .key("first", first,
           {.min = 0, .unit = "rows", .help = "first row to use; for a train and validation split"})
      .key("count", count,
           {.min = -1, .unit = "rows", .help = "how many rows to use; -1: all from `first` on"});
}

std::int64_t RowRange::resolve(const std::string& file, std::int64_t rows) const {
  if (rows == 0)
    throw DataError(ErrorText{.what = "the data set is empty",
                              .found = "0 rows",
                              .expected = "at least 1 row",
                              .fix = "check that the right file is named",
                              .file = file});
  const std::int64_t wanted = count == -1 ? rows - std::min(first, rows) : count;
  if (first >= 0 && count >= -1 && first <= rows && wanted <= rows - first && wanted > 0)
    return wanted;
  throw DataError(ErrorText{.what = wanted == 0 ? "the range of rows is empty"
                                                : "the range of rows does not lie inside the file",
                            .found = (wanted == 0 ? "0 rows: " : "") +
                                     ("first " + std::to_string(first)) + ", count " +
                                     std::to_string(count),
                            .expected = "rows inside [0, " + std::to_string(rows) + ")",
                            .fix = "change `first` or `count`",
                            .file = file});
}

void LabelOptions::declare(Schema& schema) {
  schema
      .key("classes", classes,
           {.min = 0,
            .max = 2147483647.0,
            .help = "number of label classes; 0: the largest label + 1"})
      .key("ignore", ignore,
           {.max = 2147483647.0,
            .help = "the one label that may lie outside [0, classes); the smallest integer: none"});
}

namespace {

struct LabelBounds {
  std::int64_t smallest, largest;
};

// Where the first row with this label is: line, else row.
std::string place_of(const std::string& file, std::int64_t row,
                     const std::function<std::int64_t(std::int64_t)>& line_of) {
  return line_of ? file + ":" + std::to_string(line_of(row)) : file + " row " + std::to_string(row);
}

std::int64_t row_of(std::int64_t wanted, const std::function<std::int64_t(std::int64_t)>& label) {
  std::int64_t row = 0;
  while (label(row) != wanted) ++row;
  return row;
}

LabelBounds bounds(std::int64_t rows, std::int64_t ignore,
                   const std::function<std::int64_t(std::int64_t)>& label) {
  LabelBounds b{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t v = label(r);
    if (v == ignore) continue;
    b = {std::min(b.smallest, v), std::max(b.largest, v)};
  }
  return b;
}

// What to do about a label outside [0, classes).
std::string label_advice(std::int64_t label, std::int64_t classes, const LabelBounds& seen,
                         bool fixed) {
  if (fixed) return "the file is damaged, or of another kind";
  if (seen.smallest == 1 && seen.largest == classes)
    return "labels start at 0 but these look like 1.." + std::to_string(classes) +
           ": subtract 1 from every label";
  if (label >= 0) return "correct the row, raise `classes`, or name the value as `ignore`";
  if (label == -1 && seen.largest == 1)
    return "classes count from 0: of -1 and 1 make 0 and 1; or name -1 as `ignore`";
  return "classes count from 0: correct the row, or name " + std::to_string(label) +
         " as `ignore` if it marks rows without a class";
}

}  // namespace

std::int64_t check_labels(const std::string& file, std::int64_t rows, const LabelOptions& options,
                          const std::function<std::int64_t(std::int64_t)>& label,
                          const std::function<std::int64_t(std::int64_t)>& line_of) {
  const LabelBounds seen = bounds(rows, options.ignore, label);
  const bool none = seen.smallest > seen.largest;
  const std::int64_t classes =
      options.classes > 0 ? options.classes : (none ? 0 : std::min(seen.largest, kMostClasses) + 1);
  if (!none && options.classes == 0 && seen.largest >= kMostClasses) {
    const std::int64_t row = row_of(seen.largest, label);
    throw DataError(ErrorText{
        .what = "a label is too large to be a class number",
        .found = "label " + std::to_string(seen.largest) + " in row " + std::to_string(row),
        .expected = "labels below " + std::to_string(kMostClasses),
        .fix = "correct the row or the choice of labels; set `classes` if that is meant",
        .file = file,
        .line = line_of ? line_of(row) : 0});
  }
  if (none || (seen.smallest >= 0 && seen.largest < classes)) return classes;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t v = label(r);
    if (v == options.ignore || (v >= 0 && v < classes)) continue;
    throw DataError(ErrorText{
        .what = "a label is outside the range of classes",
        .found = "label " + std::to_string(v) + " in row " + std::to_string(r),
        .expected = "a label in [0," + std::to_string(std::max<std::int64_t>(classes, 1)) + ")",
        .fix = label_advice(v, classes, seen, options.fixed),
        .file = file,
        .line = line_of ? line_of(r) : 0});
  }
  return classes;
}

std::string label_gaps(const std::string& file, std::int64_t rows, const LabelOptions& options,
                       const std::function<std::int64_t(std::int64_t)>& label,
                       const std::function<std::int64_t(std::int64_t)>& line_of) {
  const LabelBounds seen = bounds(rows, options.ignore, label);
  if (options.classes > 0 || seen.smallest > seen.largest || seen.smallest < 0) return "";
  std::vector<bool> used(static_cast<std::size_t>(seen.largest) + 1);
  for (std::int64_t r = 0; r < rows; ++r)
    if (const std::int64_t v = label(r); v != options.ignore)
      used[static_cast<std::size_t>(v)] = true;
  const auto missing = std::count(used.begin(), used.end(), false);
  if (missing == 0) return "";
  if (missing == 1 && !used[0] && used.size() > 2)
    return file + ": class 0 has no rows; labels look like 1.." + std::to_string(seen.largest) +
           ", they should start at 0";
  std::string list;
  constexpr int kShown = 8;
  int spans = 0;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (used[c]) continue;
    std::size_t last = c;
    while (!used[last + 1]) ++last;  // the largest label is used
    if (++spans <= kShown)
      list += (spans == 1 ? "" : ", ") + std::to_string(c) +
              (last > c ? ".." + std::to_string(last) : "");
    c = last;
  }
  if (spans > kShown) list += ", ...";
  return std::string(missing == 1 ? "class " : "classes ") + list +
         (missing == 1 ? " has" : " have") + " no rows; largest label " +
         std::to_string(seen.largest) + " at " +
         place_of(file, row_of(seen.largest, label), line_of) + "; set `classes` if that is meant";
}

std::string classes_text(std::int64_t classes, std::int64_t smallest) {
  if (classes == 0) return "";
  return ", " + std::to_string(classes) + (classes == 1 ? " class" : " classes") +
         (smallest > 0 ? " (smallest label " + std::to_string(smallest) + ")" : "");
}

std::string names_fault(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() ? std::string() : "`names`: '" + *twice + "' occurs twice";
}

void check_number(const std::string& key, double value, bool positive) {
  if (std::isfinite(value) && (!positive || value > 0)) return;
  throw KeyError(key,
                 ErrorText{.what = "`" + key + "` is out of range",
                           .found = fmt::format("{}", value),
                           .expected = positive ? "a finite number above 0" : "a finite number"});
}

}  // namespace belfry
