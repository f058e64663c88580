// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/allreduce/average_gradients.h"

namespace belfry {

// One variable's gradients by tower; null where absent or without weight.
struct Column {
  std::string name;
  std::vector<const Tensor*> towers;
  const Tensor* first = nullptr;  // some present one
  std::vector<int> lacking{};
};

struct CheckedLists {
  std::vector<double> weights;
  std::vector<Column> present;
  std::vector<std::string> skipped;
};

// Throws what average_gradients() throws; looks at no number of a gradient.
CheckedLists check_lists(const std::vector<GradientList>& towers, const AverageOptions& options);

// Appends mean, and square if asked for, of each column; waits for the device.
void average_columns(const std::vector<Column>& columns, const std::vector<double>& weights,
                     Device& device, bool square, AveragedGradients& out);

}  // namespace belfry
