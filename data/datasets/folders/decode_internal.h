// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace belfry {

// Pixels row after row, channels last.
struct DecodedImage {
  std::int64_t rows = 0, columns = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

// A JPEG or PNG file as `channels` (1 or 3) values a pixel; transparent parts are black. Sizes are
// checked before memory is taken. Throws DataError naming `path` for what is damaged, cut, larger
// than kMostPixels or something else.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;
DecodedImage decode_image(std::span<const std::uint8_t> file, const std::string& path,
                          std::int64_t channels);

// Rows and columns alone.
DecodedImage decode_size(std::span<const std::uint8_t> file, const std::string& path);

DecodedImage decode_jpeg(std::span<const std::uint8_t> file, const std::string& path,
                         std::int64_t channels, bool size_only);
DecodedImage decode_png(std::span<const std::uint8_t> file, const std::string& path,
                        std::int64_t channels, bool size_only);

// Of a colour: ITU-R BT.601's weights, as JPEG's own and Pillow's.
inline std::uint8_t grey_of(std::uint32_t r, std::uint32_t g, std::uint32_t b) {
  return static_cast<std::uint8_t>((r * 19595 + g * 38470 + b * 7471 + 32768) >> 16);
}

[[noreturn]] void refuse_image(const std::string& path, const std::string& what,
                               const std::string& found = "", const std::string& expected = "");
void check_image_size(const std::string& path, std::uint64_t rows, std::uint64_t columns);

// The image as [rows, columns] by a triangle filter as wide as the reduction (as Pillow's
// BILINEAR), in 0..255, until this thread's next call. With `crop` its middle of the right ratio,
// else the whole of it.
const std::vector<float>& resized(const DecodedImage& image, std::int64_t rows,
                                  std::int64_t columns, bool crop);

}  // namespace belfry
