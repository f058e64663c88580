// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "belfry/allreduce/flat_index.h"
#include "belfry/allreduce/leaf_plan.h"

namespace belfry {

// What a group's flat arrays look like; equal on every tower.
struct FlatPlan {
  FlatIndex index;
  std::vector<Bucket> buckets;
  int towers = 1;
  LeafPlan leaves;            // what the fold adds up, and in which tree
  int states = 0;             // arrays of optimizer state
  bool keep_squares = false;  // the mean of squares is kept for the rule
  bool unit_squares = false;  // the squares of units are summed beside their gradients
  bool ema = false;
  bool layerwise = false;      // the rule's updates need norms of whole variables
  bool statistics = true;      // the folds of an update leave some
  bool mean_in_place = false;  // a lone tower's gradient becomes the mean where it lies
};

enum class FlatArray : std::uint8_t { parameter, mean, square, state, ema };

// Some whole blocks to fold or to update. Pointers are to element `origin` of the flat arrays and,
// like the tables, stay until the next start(); null when unused. The mean begins at `mean_origin`:
// with `whole` it is scratch memory, good until the next call. The tables of sources are in device
// memory, with a copy for the host; `state` is the host's.
struct Work {
  std::size_t first_block = 0, blocks = 0;
  std::size_t origin = 0, mean_origin = 0;
  const float* const* sources = nullptr;    // as LeafPlan::sources, null where one takes no part
  const float* const* square_in = nullptr;  // with unit_squares
  const float* const* host_sources = nullptr;
  const float* const* host_square_in = nullptr;
  float *mean = nullptr, *square = nullptr, *param = nullptr, *ema = nullptr;
  float* const* state = nullptr;
};

}  // namespace belfry
