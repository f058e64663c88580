// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/loss/label_filter.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Number of rows whose largest logit (the first of equals) is the label; NaN rows are wrong. One
// row.
template <class T>
struct CountCorrect {
  static constexpr const char* name = kernel_name<T>("count_correct_f32", "count_correct_f64");
  const T* logits;
  const std::int32_t* labels;
  std::size_t rows, classes;
  LabelFilter filter;
  T* correct;
  T* weight;
  BELFRY_HD bool right(std::size_t row) const {
    const T* z = logits + row * classes;
    const std::int32_t label = labels[row];
    if (label < 0 || static_cast<std::size_t>(label) >= classes) return false;
    const auto hit = static_cast<std::size_t>(label);
    const T best = z[hit];
    int wrong = best == best ? 0 : 1;  // without a branch, for vectors
    for (std::size_t c = 0; c < hit; ++c) wrong |= z[c] < best ? 0 : 1;
    for (std::size_t c = hit; c < classes; ++c) wrong |= z[c] <= best ? 0 : 1;
    return wrong == 0;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const CountCorrect f = *this;
    const double hits = team.template sum<double>(rows, [f](std::size_t r) {
      return !f.filter.drops(f.labels[r]) && f.right(r) ? 1.0 : 0.0;
    });
    const double count = team.template sum<double>(
        rows, [f](std::size_t r) { return f.filter.drops(f.labels[r]) ? 0.0 : 1.0; });
    correct[0] = static_cast<T>(hits);
    weight[0] = static_cast<T>(count);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(logits, rows * classes * sizeof(T)).reads(labels, rows * sizeof(std::int32_t));
    t.writes(correct, sizeof(T)).writes(weight, sizeof(T));
  }
};

template <class Table>
void kernels_of_correct(Table& table) {
  table.template rows<CountCorrect<float>>();
}

}  // namespace belfry
