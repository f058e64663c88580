// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/ops/norm/batch_norm_backward.kernel.h"

namespace belfry {

// Row b: dx = scale dz + slope (x - mean) + offset over block b, dz = g behind the ReLU; dx may be
// g.
template <class T>
struct BatchNormGradInput {
  static constexpr const char* name =
      kernel_name<T>("batch_norm_grad_input_f32", "batch_norm_grad_input_f64");
  NormPlan plan;
  const T *g, *y, *x;  // y null where g is dz already
  NormChannels<T> of;
  const T *slope, *offset;
  T* dx;

  template <bool Relu>
  BELFRY_HD static T value(T g, T y, T x, T mean, T scale, T slope, T offset) {
    const T dz = Relu ? norm_masked(g, y) : g;
    return scale * dz + slope * (x - mean) + offset;
  }
  template <bool Relu, class Team>
  BELFRY_HD void run(Team& team, std::size_t block) const {
    const BatchNormGradInput f = *this;
    if constexpr (std::is_same_v<Team, HostTeam>) {
      norm_tiles(plan, block, [&](const NormTile& t) {
        T mean[kNormLanes], scale[kNormLanes], a[kNormLanes], b[kNormLanes];
        norm_spread(f.plan, t, f.of.mean, mean);
        norm_spread(f.plan, t, f.of.scale, scale);
        norm_spread(f.plan, t, f.slope, a);
        norm_spread(f.plan, t, f.offset, b);
        const T *grad = f.g, *mask = f.y, *in = f.x;
        T* out = f.dx;
        norm_tile(t, f.plan.lanes(), [&](std::size_t j, std::size_t i) {
          out[i] =
              value<Relu>(grad[i], Relu ? mask[i] : T(0), in[i], mean[j], scale[j], a[j], b[j]);
        });
      });
    } else {
      team.each(plan.lanes(), [=](std::size_t j) {
        const std::size_t c = j % f.plan.channels;
        const T mean = f.of.mean[c], scale = f.of.scale[c], a = f.slope[c], b = f.offset[c];
        norm_lane(f.plan, block, j, [&](std::size_t i) {
          f.dx[i] = value<Relu>(f.g[i], Relu ? f.y[i] : T(0), f.x[i], mean, scale, a, b);
        });
      });
    }
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    y != nullptr ? run<true>(team, block) : run<false>(team, block);
  }
  void touches(Touches& t, std::size_t) const {
    const std::size_t bytes = plan.total() * sizeof(T), channel = plan.channels * sizeof(T);
    t.reads(g, bytes).reads(x, bytes).reads(of.mean, channel).reads(of.scale, channel);
    if (y != nullptr) t.reads(y, bytes);
    t.reads(slope, channel).reads(offset, channel).writes(dx, bytes);
  }
};

template <class Table>
void kernels_of_batch_norm_input(Table& table) {
  table.template rows<BatchNormGradSums<float>>();
  table.template rows<BatchNormGradMoments<float>>();
  table.template rows<BatchNormGradInput<float>>();
}

}  // namespace belfry
