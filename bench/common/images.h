// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>

#include "belfry/data/dataset.h"
#include "belfry/towers/model.h"

namespace belfry::bench {

// 28 x 28 pixels of random numbers with labels of ten classes in turn; in memory.
std::shared_ptr<const Dataset> images(std::int64_t rows);

// Random tokens of 256, rows of 128, with the token that follows each; in memory.
std::shared_ptr<const Dataset> sentences(std::int64_t rows);

// What a model of the registry reads, of these two.
std::shared_ptr<const Dataset> rows_for(const ModelInput& input, std::int64_t rows);

}  // namespace belfry::bench
