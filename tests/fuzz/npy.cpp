// SPDX-License-Identifier: MIT
// Arrays of numpy, as two files or in an archive. Input: how they are packed and read, a second
// byte of it, the length of x (u16), the plain bytes of both. The archive is put together here,
// with right sizes and check sums, or is x itself. The mutator mutates one array and mostly repairs
// its header, so that types, orders and shapes vary and values are as many as the header says.
#include "belfry/core/formats/npy.h"

#include "belfry/data/datasets/npy/npy.h"
#include "fuzz.h"
#include "mutate.h"
#include "rows.h"

namespace belfry::fuzz {
namespace {

struct Input {
  std::uint8_t flags = 0, more = 0;
  std::string x, y;

  static Input from(std::string_view bytes) {
    Input in;
    if (bytes.size() < 4) return in;
    in.flags = static_cast<std::uint8_t>(bytes[0]);
    in.more = static_cast<std::uint8_t>(bytes[1]);
    const std::size_t length = std::uint8_t(bytes[2]) | std::size_t{std::uint8_t(bytes[3])} << 8;
    in.x = bytes.substr(4, length);
    in.y = bytes.substr(4 + in.x.size());
    return in;
  }
  std::string text() const {
    const std::size_t n = x.size();
    return std::string{char(flags), char(more), char(n & 255), char(n >> 8)} + x + y;
  }
};

std::string little(std::uint64_t v, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += char(v >> (8 * i) & 255);
  return out;
}

// Raw deflate is gzip without its 10 bytes in front and 8 behind.
std::string archive(const Input& in, bool packed) {
  std::string out, directory;
  for (const auto& [name, plain] :
       {std::pair<std::string, std::string>{"x.npy", in.x}, {"y.npy", in.y}}) {
    const std::string zipped = gzip(plain);
    const std::string content = packed ? zipped.substr(10, zipped.size() - 18) : plain;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(plain.data()), uInt(plain.size()));
    const std::string common = little(packed ? 8 : 0, 2) + little(0, 4) + little(crc, 4) +
                               little(content.size(), 4) + little(plain.size(), 4) +
                               little(name.size(), 2);
    directory += "PK\1\2" + little(45, 2) + little(45, 2) + little(0, 2) + common +
                 std::string(12, '\0') + little(out.size(), 4) + name;
    out += "PK\3\4" + little(45, 2) + little(0, 2) + common + little(0, 2) + name + content;
  }
  return out + directory + "PK\5\6" + little(0, 4) + little(2, 2) + little(2, 2) +
         little(directory.size(), 4) + little(out.size(), 4) + little(0, 2);
}

// A header for the values there are, its type, order and shape taken from `seed`.
void repair(std::string& file, unsigned seed, bool labels) {
  static const char* const kTypes[] = {"|u1", "|i1", "|b1", "<i2", ">u2", "<i4", ">i4",
                                       "<u4", "<i8", ">u8", "<f4", ">f4", "<f8", "<f2"};
  const std::string type = kTypes[seed % (labels ? 10 : 14)];
  const std::size_t item = std::size_t(type[2] - '0');
  const std::size_t at = std::min(file.size(), std::size_t{128});
  const std::string values = file.substr(at);
  const std::size_t n = values.size() / item;
  const auto axis = std::int64_t(1 + seed / 16 % 3);
  std::vector<std::int64_t> shape{std::int64_t(n)};
  if (!labels && seed % 3 != 0) shape = {std::int64_t(n) / axis, axis};
  if (!labels && seed % 3 == 2) shape = {std::int64_t(n) / (2 * axis), 2, 1, axis};
  std::size_t count = item;
  for (const std::int64_t e : shape) count *= std::size_t(e);
  file = numpy::encode_header(type, shape);
  if (seed % 5 == 0) file.replace(file.find("False"), 5, "True ");
  file += values.substr(0, count);
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max, unsigned seed) {
  using namespace belfry::fuzz;
  Input in = Input::from(text_of(data, size));
  const std::size_t used = in.x.size() + in.y.size() + 4;
  std::string& part = seed % 2 == 0 ? in.x : in.y;
  mutate(part, used, max);
  if (seed % 7 == 0) in.flags = static_cast<std::uint8_t>(seed >> 8);
  if (seed % 11 == 0) in.more = static_cast<std::uint8_t>(seed >> 16);
  if (seed % 5 != 0 && (in.more & 2) == 0) repair(part, seed >> 3, seed % 2 != 0);
  in.x.resize(std::min<std::size_t>(in.x.size(), 65535));
  return put(in.text(), data, max);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  const fuzz::Input in = fuzz::Input::from(fuzz::text_of(data, size));
  NpyOptions options;
  if ((in.flags & 16) != 0) options.labels.classes = 10;
  if ((in.flags & 32) != 0) options.labels.ignore = 255;
  if ((in.flags & 64) != 0) options.rows = {.first = 1, .count = 2};
  if ((in.flags & 128) != 0) options.channels_first = true;
  if ((in.more & 4) != 0) options.shape = {2, 2, 1};
  if ((in.more & 8) != 0) options.scale = 3;
  if ((in.more & 16) != 0) options.targets = true;
  if ((in.more & 32) != 0) options.unlabelled = true;
  if ((in.more & 3) == 0) {
    const fuzz::File x(fuzz::packed(in.x, fuzz::Pack(in.flags & 3)));
    const fuzz::File y(fuzz::packed(in.y, fuzz::Pack(in.flags >> 2 & 3)));
    fuzz::accepts<DataError, ConfigError>([&] { fuzz::use(*npy(x.path(), y.path(), options)); });
    return 0;
  }
  const fuzz::File file((in.more & 2) != 0 ? in.x : fuzz::archive(in, (in.flags & 1) != 0));
  fuzz::accepts<DataError, ConfigError>([&] { fuzz::use(*npz(file.path(), "x", "y", options)); });
  return 0;
}
