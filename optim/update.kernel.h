// SPDX-License-Identifier: MIT
#pragma once
#include <limits>

#include "belfry/device/kernel.h"
#include "belfry/optim/ema.kernel.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// One segment's part of the arrays; null where there is none.
struct UpdatePiece {
  float* param;
  const float* grad;
  const float* square;
  float* state[kMaxStates];
};

// A square that takes part in a second moment, clipped as the gradient: g = gradient * clip. One of
// a gradient above 1.8e19 is no f32 before clipping but may be one after it.
BELFRY_HD inline float clipped_square(float square, float g, float clip) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  return square <= kLargest ? square * clip * clip : g * g;
}

// An optimizer rule over segments, one row each, and the averaged parameters after it. A rule is a
// trivially copyable struct with
//   static constexpr const char* name, int states (arrays it uses), bool squares (it reads them);
//   BELFRY_HD auto on(const UpdatePiece&, const UpdateScalars&) const;   the element functor
template <class R>
struct UpdateSegments {
  static constexpr const char* name = R::name;
  UpdateArgs args;
  R rule;

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const SegmentRef segment = args.segments[row];
    const UpdateScalars s = args.scalars[segment.variable];
    if (s.active == 0) return;
    const std::size_t at = segment.offset - args.origin;
    UpdatePiece piece{args.param + at,
                      args.grad + (segment.offset - args.grad_origin),
                      R::squares ? args.square + at : nullptr,
                      {}};
    for (int k = 0; k < R::states; ++k) piece.state[k] = args.state[k] + at;
    team.each(segment.size, rule.on(piece, s));
    if (args.ema != nullptr)
      team.each(segment.size, ema_update(args.ema + at, piece.param, args.ema_decay, s.step));
  }

  void touches(Touches& t, std::size_t rows) const {
    const std::size_t at = args.first - args.origin, bytes = args.size * sizeof(float);
    t.reads(args.segments, rows * sizeof(SegmentRef));
    t.reads(args.scalars, args.variables * sizeof(UpdateScalars));
    t.reads(args.grad + (args.first - args.grad_origin), bytes);
    if (R::squares) t.reads(args.square + at, bytes);
    t.reads(args.param + at, bytes).writes(args.param + at, bytes);
    for (int k = 0; k < R::states; ++k)
      t.reads(args.state[k] + at, bytes).writes(args.state[k] + at, bytes);
    if (args.ema != nullptr) t.reads(args.ema + at, bytes).writes(args.ema + at, bytes);
  }
};

template <class R>
void launch_update(Stream& stream, const UpdateArgs& args, const R& rule) {
  launch_rows(stream, args.rows, UpdateSegments<R>{args, rule});
}

}  // namespace belfry
