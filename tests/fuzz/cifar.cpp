// SPDX-License-Identifier: MIT
// CIFAR's records, plain and gzip. A record has over 3,000 bytes, so an input is short: how it is
// packed and read, then the file itself or, as a rule, one byte a row that fills the row.
#include "belfry/data/datasets/cifar/cifar.h"

#include "fuzz.h"
#include "rows.h"

namespace belfry::fuzz {
namespace {

constexpr std::size_t kMostRows = 24;

std::string file_of(std::uint8_t flags, std::size_t label_bytes, std::string_view bytes) {
  if ((flags & 128) != 0) return std::string(bytes);
  std::string out;
  for (const char c : bytes.substr(0, kMostRows)) out.append(label_bytes + 3072, c);
  if (bytes.size() > kMostRows) out.resize(out.size() - std::uint8_t(bytes[kMostRows]));
  return out;
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  if (size == 0) return 0;
  const std::uint8_t flags = data[0];
  CifarOptions options;
  if ((flags & 4) != 0) options.kind = "cifar100";
  if ((flags & 8) != 0) options.label = (flags & 16) != 0 ? "fine" : "coarse";
  if ((flags & 32) != 0) options.rows = {.first = 1, .count = 1};
  if ((flags & 64) != 0) options.mean = {0.5, 0.25, 0.125};
  const fuzz::File file(fuzz::packed(
      fuzz::file_of(flags, (flags & 4) != 0 ? 2 : 1, fuzz::text_of(data + 1, size - 1)),
      fuzz::Pack(flags & 3)));
  const std::vector<std::string> files((flags & 2) != 0 ? 1 : 2, file.path());
  // cifar100 without a label is the one wrong combination of options.
  if ((flags & 12) == 4)
    fuzz::accepts<ConfigError>([&] { cifar(files, options); });
  else
    fuzz::accepts<DataError>([&] { fuzz::use(*cifar(files, options)); });
  return 0;
}
