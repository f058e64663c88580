// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/allreduce/fold.kernel.h"
#include "belfry/allreduce/parts.kernel.h"
#include "belfry/device/kernel.h"

namespace belfry {

// What all towers conclude from one update's statistics, equal bit for bit on each.
struct Verdict {
  float norm = 0;   // of the mean as clipping sees it
  float clip = 1;   // factor every update is scaled by
  float raw = 0;    // T = |mean|^2 before l2, multipliers, clipping
  float units = 0;  // L = sum_u (W_u / W) |g_u|^2
  float theta = 0;  // the l2 term of the reported loss
  float bad = 0;    // non-finite elements, and 1 for a loss that is not finite
  float ok = 1;     // 0: nobody may change anything
};

// Segment statistics -> verdict: one fixed tree over the segments in index order. One row.
struct ReachVerdict {
  static constexpr const char* name = "reach_verdict";
  const SegmentStats* stats;  // null: none are wanted
  std::size_t segments;
  float clip_norm;  // 0: off
  bool guard;
  const Totals* totals;
  Verdict* verdict;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    Verdict v;
    if (stats != nullptr) add_up(team, v);
    if (guard && !(totals->loss - totals->loss == 0)) v.bad += 1;
    v.ok = totals->weight > 0 && !(totals->faults > 0) && !(guard && v.bad > 0) ? 1.f : 0.f;
    team.each(1, [&](std::size_t) { *verdict = v; });
  }
  template <class Team>
  BELFRY_HD void add_up(Team& team, Verdict& v) const {
    v.raw = team.template sum<float>(segments, [&](std::size_t i) { return stats[i].raw; });
    v.units = team.template sum<float>(segments, [&](std::size_t i) { return stats[i].units; });
    v.theta = team.template sum<float>(segments, [&](std::size_t i) { return stats[i].theta; });
    v.bad = team.template sum<float>(segments, [&](std::size_t i) { return stats[i].bad; });
    const float c =
        team.template sum<float>(segments, [&](std::size_t i) { return stats[i].clipped; });
    v.norm = std::sqrt(c);
    v.clip = clip_norm > 0 && v.norm > clip_norm ? clip_norm / v.norm : 1.f;
  }
  void touches(Touches& t, std::size_t) const {
    if (stats != nullptr) t.reads(stats, segments * sizeof(SegmentStats));
    t.reads(totals, sizeof(Totals)).writes(verdict, sizeof(Verdict));
  }
};

// acc += x, and acc2 += x^2 / *weight: a further unit of a tower with several.
struct AddUnitGradient {
  static constexpr const char* name = "add_unit_gradient";
  const float* x;
  float* sum;
  float* squares;
  const float* weight;
  bool first;
  BELFRY_HD void operator()(std::size_t i) const {
    const float w = *weight, s = w > 0 ? x[i] : 0.f, q = w > 0 ? s * s / w : 0.f;
    sum[i] = first ? s : sum[i] + s;
    squares[i] = first ? q : squares[i] + q;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(x).updates(sum).updates(squares);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * 4)
        .reads(weight, 4)
        .reads(sum, n * 4)
        .reads(squares, n * 4)
        .writes(sum, n * 4)
        .writes(squares, n * 4);
  }
};

template <class Table>
void kernels_of_verdict(Table& table) {
  table.template elements<SumParts>();
  table.template elements<AddUnit>();
  table.template elements<SetPart>();
  table.template rows<ReachVerdict>();
  table.template elements<AddUnitGradient>();
}

}  // namespace belfry
