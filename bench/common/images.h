// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>

#include "belfry/data/dataset.h"

namespace belfry::bench {

// 28 x 28 pixels of random numbers with labels of ten classes in turn; in memory.
std::shared_ptr<const Dataset> images(std::int64_t rows);

}  // namespace belfry::bench
