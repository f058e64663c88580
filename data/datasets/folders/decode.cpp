// SPDX-License-Identifier: MIT
#include <cstring>

#include "belfry/core/error.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/datasets/folders/decode_internal.h"

namespace belfry {
namespace {

DecodedImage decode(std::span<const std::uint8_t> file, const std::string& path,
                    std::int64_t channels, bool size_only) {
  if (file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8)
    return decode_jpeg(file, path, channels, size_only);
  if (file.size() >= 8 && std::memcmp(file.data(), "\x89PNG\r\n\x1a\n", 8) == 0)
    return decode_png(file, path, channels, size_only);
  const std::string known = guess_format(file.data(), file.size());
  refuse_image(path, "the file is no image", file.empty() ? "0 bytes" : known, "JPEG or PNG");
}

}  // namespace

void refuse_image(const std::string& path, const std::string& what, const std::string& found,
                  const std::string& expected) {
  throw DataError(ErrorText{.what = what,
                            .found = found,
                            .expected = expected,
                            .fix = "repair the file or take it out of the folder",
                            .file = path});
}

void check_image_size(const std::string& path, std::uint64_t rows, std::uint64_t columns) {
  if (rows > 0 && columns > 0 && rows <= kMostPixels && columns <= kMostPixels / rows) return;
  refuse_image(path, "the image's size is out of range",
               std::to_string(rows) + " x " + std::to_string(columns),
               "at most " + std::to_string(kMostPixels) + " pixels");
}

DecodedImage decode_image(std::span<const std::uint8_t> file, const std::string& path,
                          std::int64_t channels) {
  return decode(file, path, channels, false);
}

DecodedImage decode_size(std::span<const std::uint8_t> file, const std::string& path) {
  return decode(file, path, 3, true);
}

}  // namespace belfry
