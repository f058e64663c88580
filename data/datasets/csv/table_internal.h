// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/data/datasets/csv/csv.h"

namespace belfry {

// The numbers of a CSV text: `features` scaled values and a label for each complete row (0 with
// targets, or without labels).
struct CsvTable {
  std::size_t features = 0;
  std::size_t targets = 0;         // for each row, in place of a label
  std::vector<std::string> names;  // of the features' columns; empty without a header
  std::vector<float> values, target_values;
  std::vector<double> exact;  // with standardize in place of `values`: f32 has 7 digits
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> lines;    // where each row began, for messages
  std::vector<std::int64_t> numbers;  // of each row behind the header, dropped ones counted
  std::int64_t dropped = 0;           // rows left out by missing = "drop"
};

// Throws DataError with line, column and text of the first cell that is wrong. Labels are integers
// but not yet checked against the classes. `path` is for messages. `like` are the names of the
// features that a model was trained on: under a header it finds them in whatever order they are.
CsvTable read_csv(const std::string& path, const CsvOptions& options, std::string_view text,
                  const std::vector<std::string>& like = {});

}  // namespace belfry
