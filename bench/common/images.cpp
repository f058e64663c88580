// SPDX-License-Identifier: MIT
#include "belfry/bench/common/images.h"

#include <vector>

#include "belfry/core/philox.h"
#include "belfry/data/memory.h"

namespace belfry::bench {

std::shared_ptr<const Dataset> images(std::int64_t rows) {
  const Philox random = philox_key(1, Purpose::test);
  std::vector<float> pixels(static_cast<std::size_t>(rows * 28 * 28));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = unit_float(random(static_cast<std::uint32_t>(i), 0, 0, 0).v[0]);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  return memory_dataset(std::move(pixels), Shape{28, 28, 1}, std::move(labels), 10);
}

}  // namespace belfry::bench
