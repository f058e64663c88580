// SPDX-License-Identifier: MIT
// A pair of IDX files, plain and gzip. Input: how each is packed, the length of the first (u16),
// the plain bytes of both. The mutator mutates one of the files and mostly repairs the counts.
#include "belfry/data/datasets/idx/idx.h"

#include "fuzz.h"
#include "mutate.h"
#include "rows.h"

namespace belfry::fuzz {
namespace {

struct Input {
  std::uint8_t flags = 0;
  std::string images, labels;

  static Input from(std::string_view bytes) {
    Input in;
    if (bytes.size() < 3) return in;
    in.flags = static_cast<std::uint8_t>(bytes[0]);
    const std::size_t length = std::uint8_t(bytes[1]) | std::size_t{std::uint8_t(bytes[2])} << 8;
    in.images = bytes.substr(3, length);
    in.labels = bytes.substr(3 + in.images.size());
    return in;
  }
  std::string text() const {
    const std::size_t n = images.size();
    return std::string{char(flags), char(n & 255), char(n >> 8)} + images + labels;
  }
};

std::uint32_t number(const std::string& file, std::size_t at) {
  std::uint32_t v = 0;
  for (std::size_t i = 0; i < 4; ++i) v = v << 8 | std::uint8_t(file[at + i]);
  return v;
}

void set_number(std::string& file, std::size_t at, std::uint32_t v) {
  for (std::size_t i = 0; i < 4; ++i) file[at + i] = char(v >> (24 - 8 * i));
}

// Extents small enough to hold, counts as many as there are bytes for, in both files.
void repair(Input& in) {
  if (in.images.size() < 17) in.images.resize(17);
  if (in.labels.size() < 8) in.labels.resize(8);
  set_number(in.images, 0, 0x803);
  set_number(in.labels, 0, 0x801);
  for (const std::size_t at : {8u, 12u})
    set_number(in.images, at, 1 + (number(in.images, at) - 1) % 3);
  const std::size_t row = std::size_t{number(in.images, 8)} * number(in.images, 12);
  const std::size_t n = std::max<std::size_t>(1, (in.images.size() - 16) / row);
  in.images.resize(16 + n * row);
  in.labels.resize(8 + n);
  set_number(in.images, 4, std::uint32_t(n));
  set_number(in.labels, 4, std::uint32_t(n));
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max, unsigned seed) {
  using namespace belfry::fuzz;
  Input in = Input::from(text_of(data, size));
  const std::size_t used = in.images.size() + in.labels.size() + 3;
  mutate(seed % 2 == 0 ? in.images : in.labels, used, max);
  if (seed % 7 == 0) in.flags = static_cast<std::uint8_t>(seed >> 8);
  if (seed % 5 != 0) repair(in);
  in.images.resize(std::min<std::size_t>(in.images.size(), 65535));
  return put(in.text(), data, max);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  const fuzz::Input in = fuzz::Input::from(fuzz::text_of(data, size));
  const fuzz::File images(fuzz::packed(in.images, fuzz::Pack(in.flags & 3)));
  const fuzz::File labels(fuzz::packed(in.labels, fuzz::Pack(in.flags >> 2 & 3)));
  IdxOptions options;
  if ((in.flags & 16) != 0) options.labels.classes = 10;
  if ((in.flags & 32) != 0) options.labels.ignore = 255;
  if ((in.flags & 64) != 0) options.rows = {.first = 1, .count = 2};
  fuzz::accepts<DataError>([&] { fuzz::use(*idx(images.path(), labels.path(), options)); });
  return 0;
}
