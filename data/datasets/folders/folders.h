// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// Pixels become (x / 255 - mean) / stddev; mean and stddev hold one value or one a channel.
struct FoldersOptions {
  std::vector<std::int64_t> size{};  // [rows, columns] of all images; empty: the first image's
  std::string fit = "crop";          // "crop": cut the middle out; "stretch": change the ratio
  std::int64_t channels = 3;         // 3: colour, 1: grey
  std::vector<std::string> names{};  // of the classes, in order; empty: the folders, sorted
  std::vector<double> mean{0}, stddev{1};
  bool unlabelled = false;  // all images below `root`, with label 0

  void declare(Schema& schema);
};

// JPEG and PNG files, a folder a class below `root`: fields "image" [rows, columns, channels] f32
// and "label" i32. Only paths are kept; files are read and decoded when their rows are, in the
// loader's reading thread. Rows are ordered by class, then by path. Throws DataError for a folder
// without images; a file that cannot be decoded is a DataError of read() that names it.
std::shared_ptr<const Dataset> folders(const std::string& root, const FoldersOptions& options = {});

}  // namespace belfry
