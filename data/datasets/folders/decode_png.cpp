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
  const bool colour = channels == 3 || (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else 16 bits without a gamma count as linear
  out.pixels.resize(PNG_IMAGE_SIZE(png.image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png.image, &black, out.pixels.data(), 0, nullptr) == 0) damaged();
  if (channels == 3 || !colour) return out;
  // Not libpng's grey, which weighs light instead of values: a JPEG of the same image gives this.
  auto& p = out.pixels;
  for (std::size_t i = 0; 3 * i < p.size(); ++i)
    p[i] = grey_of(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
  p.resize(p.size() / 3);
  return out;
}

}  // namespace belfry
