// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/fold_args.h"
#include "belfry/allreduce/fold_range.kernel.h"
#include "belfry/allreduce/shape_mean.kernel.h"
#include "belfry/allreduce/tree.kernel.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Folds the towers' gradients of some segments into the mean, with its statistics: one row a
// segment. Sources hold s_u = W_u g_u; N = 0 is any number of sources, absent ones null. With
// `square_in` the sources' sums of s_u^2 / W_u are read from there.
template <int N>
struct FoldSegments : FoldArgs {
  static constexpr const char* name = fold_name(N);

  template <class Leaf, class Has>
  BELFRY_HD float sum(const Leaf& leaf, const Has& has) const {
    if constexpr (N == 0)
      return tree_sum_any(n, merges, leaf, has);
    else
      return tree_sum<0, N>(leaf);
  }

  BELFRY_HD FoldRange<N> folding(const float* const* local, float* out, float w) const {
    FoldRange<N> range;
    for (int k = 0; k < N; ++k) range.from[k] = local[k];
    range.out = out;
    range.w = w;
    range.divide = config.divide;
    return range;
  }

  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const SegmentRef seg = segments[row];
    const FoldPlan p = plan[seg.variable];
    SegmentStats st;
    if (p.present != 0) {
      constexpr std::size_t kSources = N == 0 ? 1 : static_cast<std::size_t>(N);
      const std::size_t from = seg.offset - origin;
      const float* local[kSources];
      for (int k = 0; k < N; ++k) local[k] = sources[k] + from;
      // What has no weight contributes nothing, NaN included: in strict mode it counts as 0, since
      // it may as well have been added up before; else it is left out.
      const auto weighs = [this](int k) {
        if (only_part != nullptr) return only_part[k] < 0 || parts[only_part[k]].weight > 0;
        return sources[k] != nullptr && (!config.divide || parts[k].weight > 0);
      };
      const auto has = [&](int k) { return only_part != nullptr || weighs(k); };
      bool all = N != 0;
      for (int k = 0; k < N; ++k) all = all && weighs(k);
      const auto at = [&](int k, std::size_t i) {
        return N == 0 ? sources[k][from + i] : local[N == 0 ? 0 : k][i];
      };
      // Without weight the update is refused. 0 / 0 must not get into what lies between variables:
      // where the mean is made in place, nobody clears it.
      const float w = totals->weight > 0 ? totals->weight : 1.f;
      float* out = mean + (seg.offset - mean_origin);
      const bool divide = config.divide;
      if (!all)
        team.each(seg.size, [&](std::size_t i) {
          const float s = tree_sum_any(
              n, merges, [&](int k) { return weighs(k) ? sources[k][from + i] : 0.f; }, has);
          out[i] = divide ? s / w : s;
        });
      if constexpr (N != 0)
        if (all && (N != 1 || divide || out != local[0]))
          team.each(seg.size, folding(local, out, w));
      if (config.squares) st.units = fold_squares(team, from, seg.size, w, at, has);
      if (config.statistics) {
        st.raw = team.template sum<float>(seg.size, [&](std::size_t i) { return out[i] * out[i]; });
        if (!(st.raw < 3e38f))  // some element is not finite, or its square overflows: count
          st.bad = team.template sum<float>(
              seg.size, [&](std::size_t i) { return out[i] - out[i] == 0 ? 0.f : 1.f; });
      }
      st.clipped = st.raw;
      if (config.shaped) shape_mean(team, seg.size, config, p, param + from, out, st);
    }
    if (config.statistics) team.each(1, [&](std::size_t) { stats[row] = st; });
  }

  template <class Team, class At, class Has>
  BELFRY_HD float fold_squares(Team& team, std::size_t from, std::size_t size, float w,
                               const At& at, const Has& has) const {
    const auto q = [&](std::size_t i) {
      const auto leaf = [&](int k) {
        if (square_in != nullptr) return square_in[k][from + i];
        const float s = at(k, i), wk = config.divide ? parts[k].weight : 1.f;
        return wk > 0 ? s * s / wk : 0.f;
      };
      const float total = sum(leaf, has);
      return config.divide ? total / w : total;
    };
    if (square == nullptr) return team.template sum<float>(size, q);
    team.each(size, [&](std::size_t i) { square[from + i] = q(i); });
    return team.template sum<float>(size, [&](std::size_t i) { return square[from + i]; });
  }
};

template <class Table>
void kernels_of_fold(Table& table) {
  table.template rows<FoldSegments<0>>();
  table.template rows<FoldSegments<1>>();
  table.template rows<FoldSegments<2>>();
  table.template rows<FoldSegments<3>>();
  table.template rows<FoldSegments<4>>();
  table.template rows<FoldSegments<5>>();
  table.template rows<FoldSegments<6>>();
  table.template rows<FoldSegments<7>>();
  table.template rows<FoldSegments<8>>();
}

}  // namespace belfry
