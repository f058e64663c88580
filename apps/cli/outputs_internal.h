// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "belfry/apps/cli/confusion_internal.h"
#include "belfry/towers/session.h"

namespace belfry {

// What the model gives for some rows, `width` numbers for each answer: class scores of a label, or
// the numbers that are to be targets; and what the data says.
struct Outputs {
  std::size_t width = 0;
  std::vector<double> values, answers;
};

// Rows are read in parts of at most so many.
std::int64_t rows_at_once(const Dataset& data);
// Labels or targets of a row.
std::int64_t answers_of(const Dataset& data);

// Of rows [first, first + count) of `data`, in order, by one evaluation.
Outputs outputs_of(TrainSession& session, const std::shared_ptr<const Dataset>& data,
                   std::int64_t first, std::int64_t count, bool ema);

// The cells that say which row a line of predictions is of: its number in its file, and that file
// where there are several.
class RowCells {
 public:
  explicit RowCells(const Dataset& data) : data_(data), files_(!data.place(0).file.empty()) {}
  std::string header() const { return files_ ? "row,file," : "row,"; }
  std::string of(std::int64_t row) const;

 private:
  const Dataset& data_;
  bool files_;
};

// The likeliest class of one answer's scores.
Prediction predicted(double label, std::span<const double> scores);

}  // namespace belfry
