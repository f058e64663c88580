// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// Pixels become (x / 255 - mean) / stddev. `rows` cuts a train or validation part out of the file.
struct IdxOptions {
  double mean = 0;
  double stddev = 1;
  LabelOptions labels{};
  RowRange rows{};
  bool unlabelled = false;  // the labels are not read and count as 0
};

// MNIST's format, plain or gzip: fields "image" [rows, columns, 1] f32 and "label" i32. Kept as
// bytes in memory. Throws DataError for a damaged file, ConfigError for bad options.
std::shared_ptr<const Dataset> idx(const std::string& images, const std::string& labels,
                                   const IdxOptions& options = {});

}  // namespace belfry
