// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// Values become (x / scale - mean) / stddev; mean and stddev hold one value or one a channel, which
// is the last axis.
struct NpyOptions {
  std::vector<std::int64_t> shape{};  // of one row; empty: the array's own, [1] where it has none
  bool channels_first = false;        // rows are [channels, rows, columns], as in PyTorch
  std::string field = "image";        // name of x in a batch
  double scale = 1;
  std::vector<double> mean{0}, stddev{1};
  bool targets = false;  // y holds numbers to be predicted, [rows] or [rows, k]: field "target" f32
  LabelOptions labels{};
  RowRange rows{};
  bool unlabelled = false;        // y is not read: labels or targets count as 0
  std::int64_t target_width = 1;  // numbers a row then

  void declare(Schema& schema);
};

// Two arrays of numpy, plain or gzip: fields `field` f32 and "label" i32. `x` holds floats,
// integers or booleans, a row along the first axis; `y` integers, [rows] or [rows, 1]. Kept in
// memory in the file's type. Throws DataError for a damaged or unfit file, ConfigError for bad
// options.
std::shared_ptr<const Dataset> npy(const std::string& x, const std::string& y,
                                   const NpyOptions& options = {});

// The same from two arrays of one archive of numpy.savez or savez_compressed.
std::shared_ptr<const Dataset> npz(const std::string& file, const std::string& x = "x",
                                   const std::string& y = "y", const NpyOptions& options = {});

}  // namespace belfry
