// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace belfry {

// What an update kernel reads from device memory, one a variable: never baked into a launch, so a
// captured step can be replayed. Filled by the engine each update.
struct UpdateScalars {
  float lr = 0;     // learning rate of this update
  float decay = 0;  // decoupled weight decay of this variable; the rule applies p *= 1 - lr * decay
  float clip = 1;   // factor of the global-norm clip
  float step = 1;   // applied updates of this variable, this one included (Adam's t)
};

// A contiguous piece of one variable in flat memory. Pointers are device memory of `n` floats.
struct UpdateArgs {
  std::size_t n = 0;
  float* param = nullptr;
  const float* grad = nullptr;  // averaged, after l2, multiplier and value clipping, before `clip`
  const float* square = nullptr;  // mean over the units of squared gradients; null unless asked for
  float* const* state = nullptr;  // one pointer a state_names() entry, read during the call
  const UpdateScalars* scalars = nullptr;
};

}  // namespace belfry
