// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "belfry/data/byte_block.h"
#include "belfry/data/dataset.h"

namespace belfry {

// Images of u8 pixels, channels last, and a label each, held in memory and normalised on read
// through one table of 256 values a channel: (x / 255 - mean) / stddev. Immutable.
class ByteImages : public Dataset {
 public:
  struct Content {
    Shape shape;       // of one image: [rows, columns, channels]
    ByteBlock pixels;  // row after row
    std::vector<std::int32_t> labels;
    std::int64_t classes = 0;
    std::vector<double> mean, stddev;  // one for all channels, or one a channel
    std::string kind;                  // for describe()
    std::string warning{};
    std::int64_t first = 0;  // place of the first row in its file, or in all one after the other
    // Of several files: their paths and the rows up to the end of each.
    std::vector<std::pair<std::string, std::int64_t>> files{};
    bool unlabelled = false;  // the labels say nothing
  };
  explicit ByteImages(Content content);

  std::int64_t rows() const override { return static_cast<std::int64_t>(content_.labels.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return content_.classes; }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override;
  std::string describe() const override;
  std::string warning() const override { return content_.warning; }
  RowPlace place(std::int64_t row) const override;

 private:
  Content content_;
  std::vector<Field> fields_;
  std::vector<std::array<float, 256>> tables_;
};

// Throws DataError unless every index lies in [0, rows) and `out` has a buffer for each field.
void check_read(std::span<const std::int64_t> indices, std::int64_t rows, std::size_t buffers,
                std::size_t fields);

// Throws ConfigError unless both lists hold 1 or `channels` usable numbers.
void check_normalisation(const std::vector<double>& mean, const std::vector<double>& stddev,
                         std::size_t channels);

// "60000 rows, image [28, 28, 1] f32, label i32"; `answers` false: without what is in the place of
// labels and targets.
std::string fields_text(std::int64_t rows, const std::vector<Field>& fields, bool answers = true);

}  // namespace belfry
