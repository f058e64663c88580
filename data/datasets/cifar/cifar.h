// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/options.h"

namespace belfry {

// A pixel of channel c becomes (x / 255 - mean[c]) / stddev[c]; one value serves all channels.
struct CifarOptions {
  std::string kind = "cifar10";  // or "cifar100"
  std::string label{};           // cifar100 only: "fine" or "coarse", never guessed
  std::vector<double> mean{0.0};
  std::vector<double> stddev{1.0};
  RowRange rows{};
};

// CIFAR's binary format, plain or gzip, the files one after the other: fields "image" [32, 32, 3]
// f32, channels last, and "label" i32. Kept as bytes in memory. Throws DataError for a damaged
// file, ConfigError for bad options.
std::shared_ptr<const Dataset> cifar(const std::vector<std::string>& files,
                                     const CifarOptions& options = {});

}  // namespace belfry
