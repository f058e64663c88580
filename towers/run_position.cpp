// SPDX-License-Identifier: MIT
#include "belfry/towers/run_position.h"

#include <algorithm>

#include "belfry/data/byte_file.h"

namespace belfry {

std::int64_t resume_position(const Loader& loader, const RunState& saved, const Log& log) {
  const std::int64_t rows = loader.dataset().rows(), end = loader.options().epochs * rows;
  if (saved.data.rows > 0 && saved.data.rows != rows) {
    const std::int64_t inside = saved.position % saved.data.rows;
    if (inside > 0)
      log.warn("the data set has changed: its epoch {} begins anew, {} of it were trained",
               saved.position / saved.data.rows + 1, count_text(inside, "row"));
    return std::min(saved.position / saved.data.rows * rows, end);
  }
  const std::int64_t again = saved.position % rows % loader.options().batch;
  if (again > 0) log.warn("{} of this epoch are trained again", count_text(again, "row"));
  return std::min(saved.position - again, end);
}

std::int64_t updates_before(const Loader& loader, std::int64_t position) {
  const std::int64_t rows = loader.dataset().rows(), batch = loader.options().batch;
  return position / rows * loader.batches_per_epoch() + (position % rows + batch - 1) / batch;
}

}  // namespace belfry
