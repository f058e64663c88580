// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>

#include "belfry/core/schema.h"

namespace belfry {

struct Field;

// Random changes of training images, drawn by Philox from (seed, epoch, row of the data set): the
// same whatever the batch, the number of towers or where a run was resumed, and others in each
// epoch.
struct AugmentOptions {
  std::int64_t pad_crop = 0;  // pixels: the image is shifted by up to as many, each way
  bool flip = false;          // left to right, one image in two

  bool any() const { return pad_crop > 0 || flip; }
  void declare(Schema& schema);
  // Throws DataError unless there is a field "image" [rows, columns, channels] of f32 that is
  // larger than pad_crop.
  void check(std::span<const Field> fields) const;
  // Changes the images of rows that have just been read; buffers as in Dataset::read(). What is
  // shifted in is 0: a channel's mean where the data is normalised.
  void apply(std::span<const Field> fields, std::uint64_t seed, std::int64_t epoch,
             std::span<const std::int64_t> rows, std::span<void* const> buffers) const;
};

}  // namespace belfry
