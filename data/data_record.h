// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// What a model trained on a data set needs to be used without its rows, and what shows that another
// set took its place: kept in checkpoints. rows 0: nothing is known. A value.
struct DataRecord {
  std::int64_t rows = 0, classes = 0;
  std::vector<Field> fields;
  std::vector<std::string> class_names;
  std::string label_unit;
  Figures figures;
  RowKeys row_keys{};
};

DataRecord record_of(const Dataset& data);

// One clause a difference, "60 rows -> 50 rows"; none for equal records or where one is unknown.
std::vector<std::string> data_changes(const DataRecord& before, const DataRecord& now);

// A data set of that kind with one row of zeros, in place of rows that are not needed.
std::shared_ptr<const Dataset> recorded_data(DataRecord record);

}  // namespace belfry
