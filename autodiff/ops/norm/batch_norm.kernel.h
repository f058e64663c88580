// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "belfry/autodiff/ops/norm/batch_norm_plan.kernel.h"

namespace belfry {

// What the other passes need of each channel: mean, 1 / sqrt(variance + eps), weight times that.
template <class T>
struct NormChannels {
  T *mean, *inverse, *scale;
};

// Row b: sums over block b of x - shift and of its square, the shift being the first row: so that
// a large mean costs no digits.
template <class T>
struct BatchNormSums {
  static constexpr const char* name = kernel_name<T>("batch_norm_sums_f32", "batch_norm_sums_f64");
  NormPlan plan;
  const T* x;
  double* partial;
  BELFRY_HD void tile(const NormPlan& p, const NormTile& t, T* s, T* q) const {
    T shift[kNormLanes];
    norm_spread(p, t, x, shift);
    const T* from = x;
    norm_tile(t, p.lanes(), [&](std::size_t j, std::size_t i) {
      const T d = from[i] - shift[j];
      s[j] += d, q[j] += d * d;
    });
  }
  BELFRY_HD void add(std::size_t channel, std::size_t i, T& s, T& q) const {
    const T d = x[i] - x[channel];
    s += d, q += d * d;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    norm_sums<T>(team, plan, block, partial, *this);
  }
  void touches(Touches& t, std::size_t blocks) const {
    t.reads(x, plan.total() * sizeof(T));
    t.writes(partial, blocks * 2 * plan.lanes() * sizeof(double));
  }
};

// Sum number `which` of a channel over all blocks.
template <class Team>
BELFRY_HD double norm_total(Team& team, const NormPlan& p, const double* partial, std::size_t which,
                            std::size_t channel) {
  const std::size_t groups = p.groups, channels = p.channels, lanes = p.lanes();
  return team.template sum<double>(p.blocks() * groups, [=](std::size_t k) {
    return partial[(k / groups * 2 + which) * lanes + k % groups * channels + channel];
  });
}

// Row c: channel c's mean and variance from its sums, and with `moments` its mean and the sum of
// squared differences from it.
template <class T>
struct BatchNormMoments {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_moments_f32", "batch_norm_moments_f64");
  NormPlan plan;
  const T* x;
  const double* partial;
  const T* weight;
  double eps;
  NormChannels<T> out;
  T* moments;  // [2][channels]; may be null
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t c) const {
    const double n = static_cast<double>(plan.rows);
    const double s = norm_total(team, plan, partial, 0, c),
                 q = norm_total(team, plan, partial, 1, c);
    const double mean = static_cast<double>(x[c]) + s / n, rest = q - s * (s / n);
    const double m2 = rest < 0 ? 0 : rest;  // rounding; keeps NaN
    const double inverse = 1 / std::sqrt(m2 / n + eps);
    const BatchNormMoments f = *this;
    team.each(1, [=](std::size_t) {
      f.out.mean[c] = static_cast<T>(mean);
      f.out.inverse[c] = static_cast<T>(inverse);
      f.out.scale[c] = static_cast<T>(static_cast<double>(f.weight[c]) * inverse);
      if (f.moments == nullptr) return;
      f.moments[c] = static_cast<T>(mean);
      f.moments[f.plan.channels + c] = static_cast<T>(m2);
    });
  }
  void touches(Touches& t, std::size_t channels) const {
    const std::size_t bytes = channels * sizeof(T);
    t.reads(x, bytes).reads(partial, plan.blocks() * 2 * plan.lanes() * sizeof(double));
    t.reads(weight, bytes);
    t.writes(out.mean, bytes).writes(out.inverse, bytes).writes(out.scale, bytes);
    if (moments != nullptr) t.writes(moments, 2 * bytes);
  }
};

// The same from statistics that are given.
template <class T>
struct BatchNormGiven {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_given_f32", "batch_norm_given_f64");
  const T *mean, *variance, *weight;
  double eps;
  NormChannels<T> out;
  BELFRY_HD void operator()(std::size_t c) const {
    const double inverse = 1 / std::sqrt(static_cast<double>(variance[c]) + eps);
    out.mean[c] = mean[c];
    out.inverse[c] = static_cast<T>(inverse);
    out.scale[c] = static_cast<T>(static_cast<double>(weight[c]) * inverse);
  }
  void touches(Touches& t, std::size_t channels) const {
    const std::size_t bytes = channels * sizeof(T);
    t.reads(mean, bytes).reads(variance, bytes).reads(weight, bytes);
    t.writes(out.mean, bytes).writes(out.inverse, bytes).writes(out.scale, bytes);
  }
};

}  // namespace belfry
