// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// Columns are named by the header or by an index from 0; a negative index counts from the end.
// Values become (x / scale - mean) / stddev.
struct CsvOptions {
  std::string label{};                  // "": the last column
  std::vector<std::string> names{};     // of the classes, when labels are words; empty: integers
  std::vector<std::string> targets{};   // instead: numbers to be predicted, field "target"
  std::vector<std::string> features{};  // empty: all others, in their order
  std::vector<std::int64_t> shape{};    // of one row's features; empty: [features]
  std::string field = "image";          // name of the features' field
  std::string header = "auto";          // "yes", "no"; auto: the first row holds no number
  std::string missing = "error";        // "drop" leaves such rows out and describe() counts them
  std::string delimiter = ",";          // one character, or "tab"
  double scale = 1;
  double mean = 0;
  double stddev = 1;
  // Each feature's column to mean 0 and deviation 1 over these rows, after the above; columns of
  // one value become 0. From a config [test] and [validation] take the columns' figures of [data].
  bool standardize = false;
  LabelOptions labels{};
  RowRange rows{};
  // Columns of labels and targets need not be there, and count as 0; one that is there under its
  // name is no feature.
  bool unlabelled = false;

  void declare(Schema& schema);

 private:
  void add_rules(Schema& schema) const;  // between keys
};

// Comma-separated values, plain or gzip, quotes as in RFC 4180, lines ended by LF, CRLF or CR:
// fields `field` f32 and "label" i32, or "target" [targets] f32. A cell is a number as a whole or a
// DataError with file, line, column and text; blanks, nan and inf are never taken for numbers.
std::shared_ptr<const Dataset> csv(const std::string& path, const CsvOptions& options = {});

}  // namespace belfry
