// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "belfry/data/dataset.h"

namespace belfry::bench {

// Random pixels with labels of ten classes in turn; in memory.
std::shared_ptr<const Dataset> images(std::int64_t rows, const Shape& image = {28, 28, 1});

// Random tokens of 256, rows of 128, with the token that follows each; in memory.
std::shared_ptr<const Dataset> sentences(std::int64_t rows);

// What a model of the registry reads, of these two; resnet20 has 32 x 32 x 3 pixels.
std::shared_ptr<const Dataset> rows_for(const std::string& model, std::int64_t rows);

}  // namespace belfry::bench
