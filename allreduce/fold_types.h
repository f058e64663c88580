// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace belfry {

// The device part of the round record: what only the device knows of one tower's update.
struct DevicePart {
  float weight = 0;  // sum of its units' loss weights
  float loss = 0;    // sum of weight * mean loss
  float units = 0;   // units with weight
  float faults = 0;  // units with an invalid label
};

// Sums over all towers, in tower order.
struct Totals {
  float weight = 0;
  float loss = 0;  // weighted mean; not finite when any unit's is not
  float units = 0;
  float faults = 0;
};

// Per variable: what the fold does with it.
struct FoldPlan {
  float l2 = 0;
  float multiplier = 1;
  float present = 0;
};

// Per segment: sums over its elements, each in the order of a team's fold.
struct SegmentStats {
  float raw = 0;      // mean^2 before l2, multiplier, clipping
  float units = 0;    // q, the mean of squares: sum_u (W_u / W) g_u^2
  float clipped = 0;  // mean^2 as the norm clip sees it
  float theta = 0;    // l2 / 2 * parameter^2
  float bad = 0;      // non-finite elements of the mean
};

struct SegmentRef {
  std::size_t offset;  // elements, in the flat arrays
  unsigned size;
  int variable;
};

struct FoldConfig {
  float value_clip = 0;     // 0: off
  bool divide = true;       // false for a lone unit, whose gradient is the mean already
  bool statistics = false;  // raw (and with it the guard) is wanted
  bool squares = false;     // q is wanted
  bool shaped = false;      // l2, a multiplier or value clipping acts somewhere
};

// The fold's kernel for n sources; 0 is the one for any number.
constexpr const char* fold_name(int n) {
  constexpr const char* kNames[] = {"fold_any", "fold_1", "fold_2", "fold_3", "fold_4",
                                    "fold_5",   "fold_6", "fold_7", "fold_8"};
  return kNames[n];
}

}  // namespace belfry
