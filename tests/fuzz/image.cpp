// SPDX-License-Identifier: MIT
// JPEG and PNG images. Input: how they are read, then the file. libpng checks its own sums; the
// mutator repairs none, since most of what is interesting lies before them or in JPEG.
#include "belfry/data/datasets/folders/decode_internal.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  if (size == 0) return 0;
  const std::int64_t channels = (data[0] & 1) != 0 ? 1 : 3;
  fuzz::accepts<DataError>([&] {
    const std::span<const std::uint8_t> file(data + 1, size - 1);
    // A few bytes can ask for 64 Mi pixels, which is allowed but is nothing to be fuzzed with.
    const DecodedImage extent = decode_size(file, "fuzz");
    if (extent.rows * extent.columns > 1 << 16) return;
    const DecodedImage image = decode_image(file, "fuzz", channels);
    fuzz::require(image.rows == extent.rows && image.columns == extent.columns, "one size");
    fuzz::require(image.pixels.size() ==
                      std::size_t(image.rows) * std::size_t(image.columns) * std::size_t(channels),
                  "a value for every channel of every pixel");
    for (const bool crop : {false, true})
      for (const float v : resized(image, 3, 5, crop))
        fuzz::require(v >= 0 && v <= 255.01f, "resized values stay in their range");
  });
  return 0;
}
