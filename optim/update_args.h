// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/allreduce/fold_types.h"

namespace belfry {

inline constexpr int kMaxStates = 4;  // arrays of optimizer state

// What an update kernel reads from device memory, one a variable: never baked into a launch, so a
// captured step can be replayed. Filled by the engine each update.
struct UpdateScalars {
  float lr = 0;     // learning rate of this update
  float decay = 0;  // decoupled weight decay of this variable; the rule applies p *= 1 - lr * decay
  float clip = 1;   // factor of the global-norm clip
  float step = 1;   // applied updates of this variable, this one included (Adam's t)
  float active = 1;  // 0: nothing of this variable may change
};

// Segments of flat memory to update. Arrays are device memory and begin at element `origin`, the
// gradient at `grad_origin`.
struct UpdateArgs {
  std::size_t rows = 0;                  // segments
  const SegmentRef* segments = nullptr;  // they cover the elements [first, first + size)
  std::size_t first = 0, size = 0;
  std::size_t origin = 0, grad_origin = 0;
  float* param = nullptr;
  const float* grad = nullptr;  // averaged, after l2, multiplier and value clipping, before `clip`
  const float* square = nullptr;  // mean over the units of squared gradients; null unless asked for
  float* state[kMaxStates] = {};  // one a state_names() entry
  const UpdateScalars* scalars = nullptr;  // one a variable
  std::size_t variables = 0;
  float* ema = nullptr;  // averaged parameters, null when there are none
  double ema_decay = 0;
};

}  // namespace belfry
