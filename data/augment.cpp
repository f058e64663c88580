// SPDX-License-Identifier: MIT
#include "belfry/data/augment.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/data/dataset.h"

namespace belfry {
namespace {

const Field* image_of(std::span<const Field> fields) {
  const auto it =
      std::find_if(fields.begin(), fields.end(), [](const Field& f) { return f.name == "image"; });
  return it == fields.end() ? nullptr : &*it;
}

struct Image {
  std::int64_t height, width, channels;
};

// to = from shifted by (dy, dx), zeros where it does not reach, mirrored afterwards.
void move(const Image& s, const float* from, float* to, std::int64_t dy, std::int64_t dx,
          bool flip) {
  std::fill_n(to, s.height * s.width * s.channels, 0.f);
  for (std::int64_t y = std::max<std::int64_t>(0, -dy);
       y < s.height - std::max<std::int64_t>(0, dy); ++y)
    for (std::int64_t x = std::max<std::int64_t>(0, -dx);
         x < s.width - std::max<std::int64_t>(0, dx); ++x) {
      const std::int64_t column = flip ? s.width - 1 - x : x;
      std::memcpy(to + (y * s.width + column) * s.channels,
                  from + ((y + dy) * s.width + x + dx) * s.channels,
                  static_cast<std::size_t>(s.channels) * sizeof(float));
    }
}

}  // namespace

void AugmentOptions::declare(Schema& schema) {
  schema
      .key("pad_crop", pad_crop,
           {.min = 0,
            .max = 1024,
            .unit = "pixels",
            .help = "training images are shifted at random by up to as many each way; 0: not"})
      .key("flip", flip, {.help = "training images are mirrored left to right, one in two"});
}

void AugmentOptions::check(std::span<const Field> fields) const {
  if (!any()) return;
  const Field* image = image_of(fields);
  const bool fits = image != nullptr && image->shape.rank() == 3 && image->dtype == DType::f32 &&
                    image->shape[0] > pad_crop && image->shape[1] > pad_crop;
  if (fits) return;
  throw DataError(ErrorText{
      .what = "pad_crop or flip cannot change these rows",
      .found = image == nullptr
                   ? "no field 'image'"
                   : "image " + image->shape.text() + " " + std::string(name_of(image->dtype)),
      .expected = "images [rows, columns, channels] of f32, larger than pad_crop = " +
                  std::to_string(pad_crop),
      .fix = "give the data a 'shape', or leave pad_crop and flip out"});
}

void AugmentOptions::apply(std::span<const Field> fields, std::uint64_t seed, std::int64_t epoch,
                           std::span<const std::int64_t> rows,
                           std::span<void* const> buffers) const {
  if (!any()) return;
  const Field& field = *image_of(fields);
  const Image shape{field.shape[0], field.shape[1], field.shape[2]};
  const auto values = static_cast<std::size_t>(field.shape.size());
  auto* image = static_cast<float*>(buffers[static_cast<std::size_t>(&field - fields.data())]);
  std::vector<float> old(values);
  const Philox philox = philox_key(seed, Purpose::augment);
  const auto shift = [this](std::uint32_t word) {
    return static_cast<std::int64_t>(word % static_cast<std::uint32_t>(2 * pad_crop + 1)) -
           pad_crop;
  };
  for (const std::int64_t row : rows) {
    const auto w =
        philox(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
               static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32));
    std::copy_n(image, values, old.begin());
    move(shape, old.data(), image, shift(w.v[0]), shift(w.v[1]), flip && (w.v[2] & 1u) != 0);
    image += values;
  }
}

}  // namespace belfry
