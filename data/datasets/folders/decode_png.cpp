// SPDX-License-Identifier: MIT
#include <png.h>

#include "belfry/data/datasets/folders/decode_internal.h"

namespace belfry {
namespace {

struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

}  // namespace

DecodedImage decode_png(std::span<const std::uint8_t> file, const std::string& path,
                        std::int64_t channels, bool size_only) {
  Png png;
  const auto damaged = [&] { refuse_image(path, "the PNG image is damaged", png.image.message); };
  if (png_image_begin_read_from_memory(&png.image, file.data(), file.size()) == 0) damaged();
  check_image_size(path, png.image.height, png.image.width);
  DecodedImage out{png.image.height, png.image.width, channels, {}};
  if (size_only) return out;
  png.image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else 16 bits without a gamma count as linear
  out.pixels.resize(PNG_IMAGE_SIZE(png.image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png.image, &black, out.pixels.data(), 0, nullptr) == 0) damaged();
  return out;
}

}  // namespace belfry
