// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// What holds a comma, quote or line end is quoted.
std::string csv_cell(const std::string& text);

// Of one label: what it is, the class the model predicts, and that class's softmax probability.
struct Prediction {
  double label;
  std::int64_t predicted;
  double probability;
};

// How often rows of each label were given each class; labels that are ignored do not count.
class Confusion {
 public:
  Confusion(const Dataset& data, std::int64_t ignore);
  // Throws ConfigError for more classes than can be counted in pairs.
  static void require(const Dataset& data);
  void add(const Prediction& p);
  // CSV, a line a label: how often each class was predicted, and the share that was right.
  std::string text() const;

 private:
  std::size_t classes_;
  std::int64_t ignore_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> counts_;
};

}  // namespace belfry
