// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "belfry/core/schema.h"

namespace belfry {

// More classes than this are a label column chosen wrongly, unless `classes` says so.
constexpr std::int64_t kMostClasses = 1000000;

constexpr std::int64_t kNoLabel = std::numeric_limits<std::int64_t>::min();

// The rows [first, first + count) of a data file; count -1 means all from `first` on.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = -1;

  void declare(Schema& schema);
  // Cuts to a file of `rows` rows and returns the count. Throws DataError naming the file when the
  // file or the range is empty ("0 rows") or the range does not lie inside.
  std::int64_t resolve(const std::string& file, std::int64_t rows) const;
};

// What labels are allowed. `classes` 0 means the largest label + 1, up to kMostClasses. Only the
// label `ignore` may lie outside [0, classes); kNoLabel means there is none. `fixed`: by the
// format, which has no keys for them: advice differs.
struct LabelOptions {
  std::int64_t classes = 0;
  std::int64_t ignore = kNoLabel;
  bool fixed = false;

  void declare(Schema& schema);
};

// Checks all labels and returns the number of classes. Throws DataError with file, row (from 0, or
// the line where `line_of` gives one), label and range; a hint when labels look like 1..classes.
std::int64_t check_labels(const std::string& file, std::int64_t rows, const LabelOptions& options,
                          const std::function<std::int64_t(std::int64_t)>& label,
                          const std::function<std::int64_t(std::int64_t)>& line_of = {});

// With classes = 0: which classes up to the largest label have no rows, with the place of that
// label; a hint when labels look like 1..n. "" where all have some.
std::string label_gaps(const std::string& file, std::int64_t rows, const LabelOptions& options,
                       const std::function<std::int64_t(std::int64_t)>& label,
                       const std::function<std::int64_t(std::int64_t)>& line_of = {});

// ", 10 classes" or, when label 0 never occurs, a note that says so: for Dataset::describe().
std::string classes_text(std::int64_t classes, std::int64_t smallest);

// For a rule of a key `names`: which of them occurs twice; "" where none does.
std::string names_fault(const std::vector<std::string>& names);

// Throws KeyError unless `value` is a finite number, above 0 where `positive`.
void check_number(const std::string& key, double value, bool positive);

}  // namespace belfry
