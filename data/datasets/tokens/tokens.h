// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/data/token_windows.h"

namespace belfry {

struct TokensOptions {
  WindowOptions windows{};
  std::string dtype = "u16";    // or "u32": unsigned, little endian, without a header
  std::int64_t vocabulary = 0;  // 0: the largest token + 1
};

// Files of token numbers, plain or gzip, one after the other: fields "tokens" and "label" [context]
// i32. Throws DataError for a file that cannot be read, has a header or half a token, and for a
// token outside the vocabulary.
std::shared_ptr<const Dataset> tokens(const std::vector<std::string>& files,
                                      const TokensOptions& options = {});

}  // namespace belfry
