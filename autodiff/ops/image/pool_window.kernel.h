// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/core/host_device.h"
#include "belfry/device/library_shapes.h"

namespace belfry {

struct Range {
  std::int64_t begin, end;
};

// The part of window `o` that lies inside an image side of `extent` pixels.
BELFRY_HD inline Range window_inside(const PoolShape& s, std::int64_t o, std::int64_t extent) {
  const std::int64_t first = o * s.stride - s.padding, last = first + s.kernel;
  return {first < 0 ? 0 : first, last > extent ? extent : last};
}

// The windows of `outputs` that contain pixel i of a side.
BELFRY_HD inline Range windows_of(const PoolShape& s, std::int64_t i, std::int64_t outputs) {
  const std::int64_t p = i + s.padding, past = p - s.kernel;
  const std::int64_t first = past < 0 ? 0 : past / s.stride + 1, last = p / s.stride + 1;
  return {first, last > outputs ? outputs : last};
}

inline std::size_t pool_inputs(const PoolShape& s) {
  return static_cast<std::size_t>(s.n * s.h * s.w * s.c);
}
inline std::size_t pool_outputs(const PoolShape& s) {
  return static_cast<std::size_t>(s.n * s.oh * s.ow * s.c);
}

}  // namespace belfry
