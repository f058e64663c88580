// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>

#include "belfry/allreduce/segment_norms.h"
#include "belfry/device/kernel.h"
#include "belfry/optim/update.kernel.h"

namespace belfry {

// The segments [first, first + count) of one variable.
struct SegmentRange {
  unsigned first = 0;
  unsigned count = 0;
};

// The first pass of a rule with layer-wise rates, one row a segment: its state moves on, and the
// norms of what it would step by and of the parameters are taken. Segments that take no part have
// none. A rule of UpdateSegments has besides
//   static constexpr const char* measure_name;
//   BELFRY_HD auto moments(piece, scalars): an element functor that writes the state
//   BELFRY_HD auto direction(piece, scalars): u of an element, from the state
template <class R>
struct MeasureSegments {
  static constexpr const char* name = R::measure_name;
  UpdateArgs args;
  SegmentNorms* norms;
  R rule;

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const SegmentRef segment = args.segments[row];
    const UpdateScalars s = args.scalars[segment.variable];
    SegmentNorms out;
    if (s.active != 0) {
      const std::size_t at = segment.offset - args.origin;
      UpdatePiece piece{
          args.param + at, args.grad + (segment.offset - args.grad_origin), nullptr, {}};
      for (int k = 0; k < R::states; ++k) piece.state[k] = args.state[k] + at;
      team.each(segment.size, rule.moments(piece, s));
      const auto u = rule.direction(piece, s);
      out.direction =
          team.template sum<float>(segment.size, [&](std::size_t i) { return u(i) * u(i); });
      out.parameter = team.template sum<float>(
          segment.size, [&](std::size_t i) { return piece.param[i] * piece.param[i]; });
    }
    team.each(1, [&](std::size_t) { norms[row] = out; });
  }

  void touches(Touches& t, std::size_t rows) const {
    const std::size_t at = args.first - args.origin, bytes = args.size * sizeof(float);
    t.reads(args.segments, rows * sizeof(SegmentRef));
    t.reads(args.scalars, args.variables * sizeof(UpdateScalars));
    t.reads(args.grad + (args.first - args.grad_origin), bytes).reads(args.param + at, bytes);
    for (int k = 0; k < R::states; ++k)
      t.reads(args.state[k] + at, bytes).writes(args.state[k] + at, bytes);
    t.writes(norms, rows * sizeof(SegmentNorms));
  }
};

// Between the passes, one row a variable: its rate times |theta| / |u|, or unchanged where one of
// them is 0. The segments' sums are added in index order in one fixed tree.
struct ScaleRates {
  static constexpr const char* name = "scale_rates";
  const SegmentNorms* norms;  // of all segments
  std::size_t segments;
  const SegmentRange* ranges;
  UpdateScalars* scalars;

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t v) const {
    const SegmentNorms* of = norms + ranges[v].first;
    const std::size_t n = ranges[v].count;
    const float u = team.template sum<float>(n, [&](std::size_t i) { return of[i].direction; });
    const float p = team.template sum<float>(n, [&](std::size_t i) { return of[i].parameter; });
    if (scalars[v].active == 0 || !(u > 0) || !(p > 0)) return;
    team.each(1, [&](std::size_t) { scalars[v].lr *= std::sqrt(p) / std::sqrt(u); });
  }

  void touches(Touches& t, std::size_t n) const {
    t.reads(norms, segments * sizeof(SegmentNorms)).reads(ranges, n * sizeof(SegmentRange));
    t.reads(scalars, n * sizeof(UpdateScalars)).writes(scalars, n * sizeof(UpdateScalars));
  }
};

template <class Table>
void kernels_of_layerwise(Table& table) {
  table.template rows<ScaleRates>();
}

}  // namespace belfry
