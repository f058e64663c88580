// SPDX-License-Identifier: MIT
// Token numbers of 2 or 4 bytes, plain and gzip. Input: how they are packed and cut into rows, the
// positions of a row, the vocabulary (u16), the rest is the file.
#include "belfry/data/datasets/tokens/tokens.h"

#include "fuzz.h"
#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  if (size < 4) return 0;
  const std::uint8_t flags = data[0];
  TokensOptions options;
  options.windows = fuzz::windows(flags, data[1]);
  options.vocabulary = data[2] | std::int64_t{data[3]} << 8;
  if ((flags & 128) != 0) options.dtype = "u32";
  const fuzz::File file(fuzz::packed(fuzz::text_of(data + 4, size - 4), fuzz::Pack(flags & 3)));
  fuzz::accepts<DataError, ConfigError>([&] {
    const auto set = tokens({file.path()}, options);
    fuzz::use(*set);
    fuzz::read_rows(*set, {.seed = 7, .number = 3, .shuffled = true});
    fuzz::require(set->classes() > 0, "an accepted set has a vocabulary");
  });
  return 0;
}
