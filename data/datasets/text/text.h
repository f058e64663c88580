// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/token_windows.h"

namespace belfry {

// The bytes of files, plain or gzip, one after the other, as 256 tokens: fields "tokens" and
// "label" [context] i32. Throws DataError for a file that cannot be read or too few bytes.
std::shared_ptr<const Dataset> text(const std::vector<std::string>& files,
                                    const WindowOptions& options = {});

}  // namespace belfry
