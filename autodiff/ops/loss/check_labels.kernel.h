// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/label_fault.h"
#include "belfry/autodiff/ops/loss/label_filter.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Notes the first label out of range, unless one has been found before; with `classes` below 0, the
// first index outside [0, -classes). One row.
struct CheckLabels {
  static constexpr const char* name = "check_labels";
  const std::int32_t* labels;
  std::size_t rows, per_row;  // labels, and how many make a row of the batch
  std::int64_t classes;
  LabelFilter filter;
  LabelFault* fault;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const CheckLabels f = *this;
    const std::int64_t limit = classes < 0 ? -classes : classes;
    // The maximum of rows counted from the end is the first.
    const double last = team.template max<double>(rows, [f, limit](std::size_t r) {
      const std::int32_t y = f.labels[r];
      const bool bad = !f.filter.drops(y) && (y < 0 || y >= limit);
      return bad ? static_cast<double>(f.rows - r) : 0.0;
    });
    team.each(1, [f, last](std::size_t) {
      if (!(last > 0) || f.fault->found != 0) return;
      const std::size_t row = f.rows - static_cast<std::size_t>(last);
      *f.fault = {1, f.labels[row], static_cast<std::int64_t>(row / f.per_row), f.classes};
    });
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(labels, rows * sizeof(std::int32_t));
    t.reads(fault, sizeof(LabelFault)).writes(fault, sizeof(LabelFault));
  }
};

template <class Table>
void kernels_of_check_labels(Table& table) {
  table.template rows<CheckLabels>();
}

}  // namespace belfry
