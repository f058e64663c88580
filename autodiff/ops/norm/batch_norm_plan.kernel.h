// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <type_traits>

#include "belfry/device/kernel.h"

// How the kernels of batch norm walk over [rows, channels]. `groups` rows are taken side by side,
// so that a long row of groups * channels values fills the lanes of a vector or of a team; a
// block is some of them, one row of a kernel. The host goes through a block in tiles of at most
// 64 long rows and 64 lanes, others through each lane from top to bottom.
namespace belfry {

inline constexpr std::size_t kNormLanes = 64;
inline constexpr std::size_t kNormTerms = 64;  // of a lane, summed in T before they go to double

struct NormPlan {
  std::size_t rows, channels, groups, steps;
  BELFRY_HD std::size_t total() const { return rows * channels; }
  BELFRY_HD std::size_t lanes() const { return groups * channels; }
  BELFRY_HD std::size_t long_rows() const { return (total() + lanes() - 1) / lanes(); }
  BELFRY_HD std::size_t block_rows() const { return steps * kNormTerms; }
  BELFRY_HD std::size_t blocks() const { return (long_rows() + block_rows() - 1) / block_rows(); }
};

// `steps`: how many times kNormTerms long rows a block has. Needs channels > 0.
inline NormPlan norm_plan(std::size_t rows, std::size_t channels, std::size_t steps) {
  return {rows, channels, channels < kNormLanes ? kNormLanes / channels : 1, steps};
}

// `rows` long rows of `width` values from element `at` on, in lanes [lane, lane + width).
struct NormTile {
  std::size_t at, lane, width, rows;
};

template <class F>
BELFRY_HD void norm_tiles(const NormPlan& p, std::size_t block, const F& f) {
  const std::size_t lanes = p.lanes(), full = p.total() / lanes, first = block * p.block_rows();
  const std::size_t past = first + p.block_rows(), all = p.long_rows(),
                    end = past < all ? past : all;
  for (std::size_t r = first; r < end; r += kNormTerms) {
    const std::size_t next = r + kNormTerms < end ? r + kNormTerms : end,
                      whole = next < full ? next : full;
    for (std::size_t lane = 0; lane < lanes && whole > r; lane += kNormLanes) {
      const std::size_t left = lanes - lane;
      f(NormTile{r * lanes + lane, lane, left < kNormLanes ? left : kNormLanes, whole - r});
    }
    if (whole < next)  // the rest does not fill the lanes
      f(NormTile{whole * lanes, 0, p.total() - whole * lanes, 1});
  }
}

// f(j, i) for lanes j of a tile and elements i, row by row; a full tile's width is a constant.
template <class F>
BELFRY_HD void norm_tile(const NormTile& t, std::size_t lanes, const F& f) {
  if (t.width == kNormLanes) {
    for (std::size_t r = 0, i = t.at; r < t.rows; ++r, i += lanes)
#pragma GCC ivdep
      for (std::size_t j = 0; j < kNormLanes; ++j) f(j, i + j);
  } else {
    for (std::size_t r = 0, i = t.at; r < t.rows; ++r, i += lanes)
#pragma GCC ivdep
      for (std::size_t j = 0; j < t.width; ++j) f(j, i + j);
  }
}

// Values of channels, by the lanes of a tile.
template <class T>
BELFRY_HD void norm_spread(const NormPlan& p, const NormTile& t, const T* channel, T* lane) {
  std::size_t c = t.lane % p.channels;
  for (std::size_t j = 0; j < t.width; ++j) {
    lane[j] = channel[c];
    c = c + 1 == p.channels ? 0 : c + 1;
  }
}

// The elements of a block in one lane, from top to bottom: f(i).
template <class F>
BELFRY_HD void norm_lane(const NormPlan& p, std::size_t block, std::size_t lane, const F& f) {
  const std::size_t lanes = p.lanes(), total = p.total(), first = block * p.block_rows();
  const std::size_t past = (first + p.block_rows()) * lanes, end = past < total ? past : total;
  for (std::size_t i = first * lanes + lane; i < end; i += lanes) f(i);
}

// Sums of a block, two a lane, in double: [block][2][lanes].
template <class T, class Team, class Term>
BELFRY_HD void norm_sums(const Team& team, const NormPlan& p, std::size_t block, double* partial,
                         const Term& term) {
  double* out = partial + block * 2 * p.lanes();
  if constexpr (std::is_same_v<Team, HostTeam>) {
    for (std::size_t k = 0; k < 2 * p.lanes(); ++k) out[k] = 0;
    norm_tiles(p, block, [&](const NormTile& t) {
      T s[kNormLanes] = {}, q[kNormLanes] = {};
      term.tile(p, t, s, q);
      for (std::size_t j = 0; j < t.width; ++j) {
        out[t.lane + j] += static_cast<double>(s[j]);
        out[p.lanes() + t.lane + j] += static_cast<double>(q[j]);
      }
    });
  } else {
    team.each(p.lanes(), [=](std::size_t j) {
      double s = 0, q = 0;
      T a = 0, b = 0;
      std::size_t terms = 0;
      norm_lane(p, block, j, [&](std::size_t i) {
        term.add(j % p.channels, i, a, b);
        if (++terms % kNormTerms != 0) return;
        s += static_cast<double>(a), q += static_cast<double>(b);
        a = b = 0;
      });
      out[j] = s + static_cast<double>(a), out[p.lanes() + j] = q + static_cast<double>(b);
    });
  }
}

}  // namespace belfry
