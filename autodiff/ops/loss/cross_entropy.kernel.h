// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "belfry/autodiff/ops/loss/label_filter.kernel.h"
#include "belfry/autodiff/ops/norm/softmax_row.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// One row: its probabilities and its loss (0 when ignored). With `smoothing` s the target is 1 - s
// at the label and s / classes everywhere.
template <class T>
struct CrossEntropyRow {
  static constexpr const char* name = kernel_name<T>("cross_entropy_f32", "cross_entropy_f64");
  const T* logits;
  const std::int32_t* labels;
  T* probabilities;
  T* losses;
  std::size_t classes;
  LabelFilter filter;
  T smoothing;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* z = logits + row * classes;
    const auto [top, total] = softmax_row<T>(team, z, probabilities + row * classes, classes);
    const std::int32_t label = labels[row];
    const T low =
        smoothing > T(0)
            ? team.template sum<T>(classes, [z, top = top](std::size_t c) { return z[c] - top; })
            : T(0);
    if (filter.drops(label))
      losses[row] = T(0);
    else if (label < 0 || static_cast<std::size_t>(label) >= classes)
      losses[row] = std::numeric_limits<T>::quiet_NaN();
    else  // from `top`, beside which small losses would lose their digits
      losses[row] = std::log(total) - (T(1) - smoothing) * (z[label] - top) -
                    smoothing * (low / static_cast<T>(classes));
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(logits, rows * classes * sizeof(T)).reads(labels, rows * sizeof(std::int32_t));
    t.writes(probabilities, rows * classes * sizeof(T)).writes(losses, rows * sizeof(T));
  }
};

// Mean and number of the labels that count; one row.
template <class T>
struct CrossEntropyMean {
  static constexpr const char* name =
      kernel_name<T>("cross_entropy_mean_f32", "cross_entropy_mean_f64");
  const T* losses;
  const std::int32_t* labels;
  std::size_t rows;
  LabelFilter filter;
  T* mean;
  T* weight;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const T* l = losses;
    const std::int32_t* y = labels;
    const LabelFilter f = filter;
    const double total =
        team.template sum<double>(rows, [l](std::size_t r) { return static_cast<double>(l[r]); });
    const double count = team.template sum<double>(
        rows, [y, f](std::size_t r) { return f.drops(y[r]) ? 0.0 : 1.0; });
    mean[0] = static_cast<T>(count > 0 ? total / count : 0.0);
    weight[0] = static_cast<T>(count);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(losses, rows * sizeof(T)).reads(labels, rows * sizeof(std::int32_t));
    t.writes(mean, sizeof(T)).writes(weight, sizeof(T));
  }
};

template <class Table>
void kernels_of_cross_entropy(Table& table) {
  table.template rows<CrossEntropyRow<float>>();
  table.template rows<CrossEntropyMean<float>>();
}

}  // namespace belfry
