// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/fold_types.h"
#include "belfry/device/types.h"

namespace belfry {

// What a fold of some segments reads and writes. Arrays begin at element `origin`, the mean
// (scratch memory, or a lone source itself) at `mean_origin`. Tables are in device memory; of those
// that hold pointers the host has a copy.
struct FoldArgs {
  const SegmentRef* segments;  // they cover the elements [first, first + count)
  std::size_t first, count;
  const FoldPlan* plan;
  std::size_t variables;
  const float* const* sources;
  const float* const* square_in;  // null: from the sources
  const float* const* host_sources;
  const float* const* host_square_in;
  const unsigned char* merges;  // null: those of leaves 0, 1, 2 ...
  const int* only_part;         // strict: the part of a source's only leaf, or -1; else null
  const DevicePart* parts;
  const Totals* totals;
  const float* param;
  float *mean, *square;  // square null: not kept
  SegmentStats* stats;   // one a segment, as `segments`
  std::size_t origin, mean_origin;
  int n, part_count;
  FoldConfig config;

  void touches(Touches& t, std::size_t rows) const {
    const std::size_t pointers = static_cast<std::size_t>(n) * sizeof(float*);
    t.reads(segments, rows * sizeof(SegmentRef)).reads(sources, pointers);
    if (square_in != nullptr) t.reads(square_in, pointers);
    if (merges != nullptr) t.reads(merges, static_cast<std::size_t>(n));
    if (only_part != nullptr) t.reads(only_part, static_cast<std::size_t>(n) * sizeof(int));
    const std::size_t at = first - origin, bytes = count * sizeof(float);
    for (int k = 0; k < n; ++k) {
      if (host_sources[k] != nullptr) t.reads(host_sources[k] + at, bytes);
      if (square_in != nullptr && host_square_in[k] != nullptr)
        t.reads(host_square_in[k] + at, bytes);
    }
    t.reads(plan, variables * sizeof(FoldPlan));
    t.reads(param + at, bytes).writes(mean + (first - mean_origin), bytes);
    if (square != nullptr) t.writes(square + at, bytes);
    t.writes(stats, rows * sizeof(SegmentStats));
    t.reads(totals, sizeof(Totals))
        .reads(parts, static_cast<std::size_t>(part_count) * sizeof(DevicePart));
  }
};

}  // namespace belfry
