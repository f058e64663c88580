// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

// Sums down the columns for devices with many blocks, in two steps: partial sums of up to
// kColumnTerms rows in f32, then those in double. The order depends on the shape alone.
namespace belfry {

inline constexpr std::size_t kColumnTerms = 64;

// Few columns: `groups` rows side by side, so that a team's threads have one column each.
struct ColumnPlan {
  std::size_t rows, columns, groups, blocks;
  BELFRY_HD std::size_t partials() const { return blocks * groups; }  // rows of `partial`
};
inline ColumnPlan column_plan(std::size_t rows, std::size_t columns) {
  const std::size_t lanes = kTeamLanes;
  const std::size_t groups = columns < lanes ? lanes / columns : 1, block = groups * kColumnTerms;
  return {rows, columns, groups, (rows + block - 1) / block};
}

// Row b: the sums of block b, one a group and column.
struct ColumnPartials {
  static constexpr const char* name = "column_partials";
  const float* x;
  float* partial;
  ColumnPlan plan;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    const ColumnPartials f = *this;
    const std::size_t step = plan.groups, first = block * step * kColumnTerms,
                      past = first + step * kColumnTerms, end = past < plan.rows ? past : plan.rows;
    team.each(step * plan.columns, [=](std::size_t i) {
      const std::size_t group = i / f.plan.columns, column = i % f.plan.columns;
      float sum = 0;
      for (std::size_t r = first + group; r < end; r += step)
        sum += f.x[r * f.plan.columns + column];
      f.partial[(block * step + group) * f.plan.columns + column] = sum;
    });
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(x, plan.rows * plan.columns * sizeof(float));
    t.writes(partial, plan.partials() * plan.columns * sizeof(float));
  }
};

// Row c: the sum of column c's partial sums; of none: 0.
struct ColumnTotals {
  static constexpr const char* name = "column_totals";
  const float* partial;
  float* out;
  ColumnPlan plan;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t column) const {
    const float* p = partial + column;
    const std::size_t columns = plan.columns;
    const double total = team.template sum<double>(
        plan.partials(), [=](std::size_t i) { return static_cast<double>(p[i * columns]); });
    out[column] = static_cast<float>(total);
  }
  void touches(Touches& t, std::size_t columns) const {
    t.reads(partial, plan.partials() * columns * sizeof(float));
    t.writes(out, columns * sizeof(float));
  }
};

template <class Table>
void kernels_of_column_sum(Table& table) {
  table.template rows<ColumnPartials>();
  table.template rows<ColumnTotals>();
}

}  // namespace belfry
