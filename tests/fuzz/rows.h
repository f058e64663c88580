// SPDX-License-Identifier: MIT
#pragma once
#include <numeric>
#include <vector>

#include "belfry/data/dataset.h"
#include "belfry/data/token_windows.h"
#include "fuzz.h"

namespace belfry::fuzz {

// Reads all rows of an accepted data set, from the last to the first.
inline void read_rows(const Dataset& set, const ReadEpoch& epoch) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(set.rows()));
  std::iota(rows.rbegin(), rows.rend(), std::int64_t{0});
  std::vector<std::vector<std::byte>> buffers;
  std::vector<void*> out;
  for (const Field& f : set.fields()) {
    buffers.emplace_back(rows.size() * static_cast<std::size_t>(f.shape.size()) * size_of(f.dtype));
    out.push_back(buffers.back().data());
  }
  set.read_epoch(rows, epoch, out);
}

// The same, and asks for all it says of itself.
inline void use(const Dataset& set) {
  require(set.rows() > 0, "an accepted data set has rows");
  require(!set.describe().empty(), "a data set describes itself");
  set.warning();
  read_rows(set, {});
}

inline WindowOptions windows(std::uint8_t flags, std::uint8_t context) {
  WindowOptions out;
  out.context = context;
  if ((flags & 4) != 0) out.first = 3;
  if ((flags & 8) != 0) out.count = 20;
  if ((flags & 16) != 0) out.part = (flags & 32) != 0 ? "train" : "validation";
  if ((flags & 64) != 0) out.holdout = 0.5;
  return out;
}

}  // namespace belfry::fuzz
