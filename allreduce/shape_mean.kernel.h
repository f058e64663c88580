// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/fold_types.h"
#include "belfry/device/kernel.h"

namespace belfry {

// m <- clipped((m + l2 theta) multiplier); no limit: 0. Without kL2 theta is not read.
template <bool kL2>
struct ShapeRange {
  float* mean;
  const float* theta;
  float l2, multiplier, limit;
  BELFRY_HD void operator()(std::size_t i) const {
    float m = mean[i];
    if constexpr (kL2) m += l2 * theta[i];
    m *= multiplier;
    if (limit > 0) m = m > limit ? limit : (m < -limit ? -limit : m);
    mean[i] = m;
  }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.updates(mean);
    if constexpr (kL2) v.reads(theta);
  }
};

// What comes between averaging and the norm clip, on the piece of one variable: l2, multiplier,
// clipping by value; with what they do to the statistics.
template <class Team>
BELFRY_HD void shape_mean(Team& team, std::size_t size, const FoldConfig& config, const FoldPlan& p,
                          const float* theta, float* out, SegmentStats& st) {
  if (p.l2 != 0)
    st.theta = 0.5f * p.l2 *
               team.template sum<float>(size, [&](std::size_t i) { return theta[i] * theta[i]; });
  if (p.l2 != 0)
    team.each(size, ShapeRange<true>{out, theta, p.l2, p.multiplier, config.value_clip});
  else
    team.each(size, ShapeRange<false>{out, theta, 0, p.multiplier, config.value_clip});
  if (config.statistics)
    st.clipped = team.template sum<float>(size, [&](std::size_t i) { return out[i] * out[i]; });
}

}  // namespace belfry
