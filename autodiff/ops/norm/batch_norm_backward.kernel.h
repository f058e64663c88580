// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/norm/batch_norm.kernel.h"

namespace belfry {

// The gradient behind the ReLU: 0 where it was cut off. NaN goes on.
template <class T>
BELFRY_HD inline T norm_masked(T g, T y) {
  return y <= T(0) ? T(0) : g;
}

// Row b: sums over block b of dz and of dz (x - mean), dz = g behind the ReLU; writes dz where
// asked, which may be over g.
template <class T>
struct BatchNormGradSums {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_grad_sums_f32", "batch_norm_grad_sums_f64");
  NormPlan plan;
  const T *g, *y, *x;  // y null without ReLU
  const T* mean;
  T* dz;  // may be null
  double* partial;

  template <bool Relu, bool Write>
  BELFRY_HD void run(const NormPlan& p, const NormTile& t, T* s, T* q) const {
    T center[kNormLanes];
    norm_spread(p, t, mean, center);
    const T *grad = g, *mask = y, *in = x;
    T* out = dz;
    norm_tile(t, p.lanes(), [&](std::size_t j, std::size_t i) {
      const T v = Relu ? norm_masked(grad[i], mask[i]) : grad[i];
      if constexpr (Write) out[i] = v;
      s[j] += v, q[j] += v * (in[i] - center[j]);
    });
  }
  BELFRY_HD void tile(const NormPlan& p, const NormTile& t, T* s, T* q) const {
    if (y != nullptr)
      dz != nullptr ? run<true, true>(p, t, s, q) : run<true, false>(p, t, s, q);
    else
      dz != nullptr ? run<false, true>(p, t, s, q) : run<false, false>(p, t, s, q);
  }
  BELFRY_HD void add(std::size_t channel, std::size_t i, T& s, T& q) const {
    const T v = y != nullptr ? norm_masked(g[i], y[i]) : g[i];
    if (dz != nullptr) dz[i] = v;
    s += v, q += v * (x[i] - mean[channel]);
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    norm_sums<T>(team, plan, block, partial, *this);
  }
  void touches(Touches& t, std::size_t blocks) const {
    const std::size_t bytes = plan.total() * sizeof(T);
    t.reads(g, bytes).reads(x, bytes).reads(mean, plan.channels * sizeof(T));
    if (y != nullptr) t.reads(y, bytes);
    if (dz != nullptr) t.writes(dz, bytes);
    t.writes(partial, blocks * 2 * plan.lanes() * sizeof(double));
  }
};

// Row c: gradients of channel c's weight and bias, and the constants of
// dx = scale dz + slope (x - mean) + offset. With `fixed` statistics the last two are 0.
template <class T>
struct BatchNormGradMoments {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_grad_moments_f32", "batch_norm_grad_moments_f64");
  NormPlan plan;
  const double* partial;
  NormChannels<T> of;
  bool fixed;
  T *dweight, *dbias;  // may be null
  T *slope, *offset;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t c) const {
    const double n = static_cast<double>(plan.rows);
    const double s = norm_total(team, plan, partial, 0, c),
                 q = norm_total(team, plan, partial, 1, c);
    const double inverse = static_cast<double>(of.inverse[c]),
                 scale = static_cast<double>(of.scale[c]);
    const BatchNormGradMoments f = *this;
    team.each(1, [=](std::size_t) {
      if (f.dweight != nullptr) f.dweight[c] = static_cast<T>(q * inverse);
      if (f.dbias != nullptr) f.dbias[c] = static_cast<T>(s);
      f.slope[c] = f.fixed ? T(0) : static_cast<T>(-scale * inverse * inverse * (q / n));
      f.offset[c] = f.fixed ? T(0) : static_cast<T>(-scale * (s / n));
    });
  }
  void touches(Touches& t, std::size_t channels) const {
    const std::size_t bytes = channels * sizeof(T);
    t.reads(partial, plan.blocks() * 2 * plan.lanes() * sizeof(double));
    t.reads(of.inverse, bytes).reads(of.scale, bytes);
    if (dweight != nullptr) t.writes(dweight, bytes);
    if (dbias != nullptr) t.writes(dbias, bytes);
    t.writes(slope, bytes).writes(offset, bytes);
  }
};

}  // namespace belfry
