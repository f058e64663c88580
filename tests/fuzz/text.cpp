// SPDX-License-Identifier: MIT
// Bytes of one or two files as tokens, plain and gzip. Input: how they are packed and cut into
// rows, the positions of a row, the rest is the text, of which a second file has the last third.
#include "belfry/data/datasets/text/text.h"

#include "fuzz.h"
#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  if (size < 2) return 0;
  const std::string_view bytes = fuzz::text_of(data + 2, size - 2);
  const std::uint8_t flags = data[0];
  const fuzz::Pack pack = fuzz::Pack(flags & 3);
  const WindowOptions options = fuzz::windows(flags, data[1]);
  const bool two = (flags & 128) != 0;
  const std::size_t cut = two ? bytes.size() - bytes.size() / 3 : bytes.size();
  const fuzz::File first(fuzz::packed(bytes.substr(0, cut), pack));
  const fuzz::File second(bytes.substr(cut));
  std::vector<std::string> files{first.path()};
  if (two) files.push_back(second.path());
  fuzz::accepts<DataError, ConfigError>([&] {
    const auto set = text(files, options);
    fuzz::use(*set);
    fuzz::read_rows(*set, {.seed = 7, .number = 3, .shuffled = true});
    fuzz::require(set->classes() == 256, "bytes are 256 tokens");
  });
  return 0;
}
