// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "belfry/data/dataset.h"

namespace belfry {

// The kind, as key "name", and those of the factory's keys that belong to a model, as they are set.
// Lists of one number over and over count as that number.
RowKeys row_keys_of(const std::string& kind, DatasetFactory& factory);

// `data` with these keys.
std::shared_ptr<const Dataset> with_row_keys(std::shared_ptr<const Dataset> data, RowKeys keys);

// For messages: "name = csv, scale = 16.0".
std::string row_keys_text(const RowKeys& keys);

}  // namespace belfry
