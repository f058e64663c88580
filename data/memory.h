// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// One field's values for all rows, row after row; the vector's type gives the field's dtype.
struct MemoryField {
  std::string name;
  Shape shape;  // of one row; rank 0 for a label
  std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>,
               std::vector<std::int64_t>, std::vector<std::uint8_t>>
      values;
};

// A data set that owns its values. A field named "label" of integers is checked against `labels`.
// Floats are taken as they are, NaN included. Throws DataError when the fields have no rows, differ
// in their number of rows or share a name.
std::shared_ptr<const Dataset> memory_dataset(std::vector<MemoryField> fields,
                                              LabelOptions labels = {});

// Fields "image" and "label".
std::shared_ptr<const Dataset> memory_dataset(std::vector<float> images, const Shape& image,
                                              std::vector<std::int32_t> labels,
                                              std::int64_t classes = 0);

}  // namespace belfry
