// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/fold_types.h"
#include "belfry/device/kernel.h"

namespace belfry {

// What comes between averaging and the norm clip, on the piece of one variable: l2, multiplier,
// clipping by value; with what they do to the statistics.
template <class Team>
BELFRY_HD void shape_mean(Team& team, std::size_t size, const FoldConfig& config, const FoldPlan& p,
                          const float* theta, float* out, SegmentStats& st) {
  const float limit = config.value_clip;
  if (p.l2 != 0)
    st.theta = 0.5f * p.l2 *
               team.template sum<float>(size, [&](std::size_t i) { return theta[i] * theta[i]; });
  team.each(size, [&](std::size_t i) {
    float m = out[i];
    if (p.l2 != 0) m += p.l2 * theta[i];
    m *= p.multiplier;
    if (limit > 0) m = m > limit ? limit : (m < -limit ? -limit : m);
    out[i] = m;
  });
  if (config.statistics)
    st.clipped = team.template sum<float>(size, [&](std::size_t i) { return out[i] * out[i]; });
}

}  // namespace belfry
