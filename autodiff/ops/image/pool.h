// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// Square windows over NHWC images.
struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 0;   // 0: the kernel's size
  std::int64_t padding = 0;  // at most kernel / 2
};

}  // namespace belfry
