// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/norm/batch_norm.kernel.h"

namespace belfry {

// Row b: y = (x - mean) scale + bias (+ residual), then ReLU where asked, over block b.
template <class T>
struct BatchNormApply {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_apply_f32", "batch_norm_apply_f64");
  NormPlan plan;
  const T *x, *residual;  // residual may be null
  NormChannels<T> of;
  const T* bias;
  bool relu;
  T* y;

  template <bool Relu, bool Add>
  BELFRY_HD static T value(T x, T mean, T scale, T bias, T residual) {
    T v = (x - mean) * scale + bias;
    if constexpr (Add) v += residual;
    if constexpr (Relu) v = v < T(0) ? T(0) : v;  // keeps NaN
    return v;
  }
  template <bool Relu, bool Add, class Team>
  BELFRY_HD void run(Team& team, std::size_t block) const {
    const BatchNormApply f = *this;
    if constexpr (std::is_same_v<Team, HostTeam>) {
      norm_tiles(plan, block, [&](const NormTile& t) {
        T mean[kNormLanes], scale[kNormLanes], add[kNormLanes];
        norm_spread(f.plan, t, f.of.mean, mean);
        norm_spread(f.plan, t, f.of.scale, scale);
        norm_spread(f.plan, t, f.bias, add);
        const T *in = f.x, *more = f.residual;
        T* out = f.y;
        norm_tile(t, f.plan.lanes(), [&](std::size_t j, std::size_t i) {
          out[i] = value<Relu, Add>(in[i], mean[j], scale[j], add[j], Add ? more[i] : T(0));
        });
      });
    } else {
      team.each(plan.lanes(), [=](std::size_t j) {
        const std::size_t c = j % f.plan.channels;
        const T mean = f.of.mean[c], scale = f.of.scale[c], add = f.bias[c];
        norm_lane(f.plan, block, j, [&](std::size_t i) {
          f.y[i] = value<Relu, Add>(f.x[i], mean, scale, add, Add ? f.residual[i] : T(0));
        });
      });
    }
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    if (relu)
      residual != nullptr ? run<true, true>(team, block) : run<true, false>(team, block);
    else
      residual != nullptr ? run<false, true>(team, block) : run<false, false>(team, block);
  }
  void touches(Touches& t, std::size_t) const {
    const std::size_t bytes = plan.total() * sizeof(T), channel = plan.channels * sizeof(T);
    t.reads(x, bytes).reads(of.mean, channel).reads(of.scale, channel).reads(bias, channel);
    if (residual != nullptr) t.reads(residual, bytes);
    t.writes(y, bytes);
  }
};

template <class Table>
void kernels_of_batch_norm_apply(Table& table) {
  table.template rows<BatchNormSums<float>>();
  table.template rows<BatchNormMoments<float>>();
  table.template elements<BatchNormGiven<float>>();
  table.template rows<BatchNormApply<float>>();
}

}  // namespace belfry
