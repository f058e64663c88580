// SPDX-License-Identifier: MIT
// Random shifts and mirroring of training images.
#include <map>
#include <optional>

#include "belfry/core/error.h"
#include "belfry/data/loader.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kHeight = 5, kWidth = 4, kChannels = 2;
constexpr std::size_t kImage = kHeight * kWidth * kChannels;

// Every value of every image is different and not 0.
std::shared_ptr<const Dataset> numbered(std::int64_t rows) {
  std::vector<float> x(static_cast<std::size_t>(rows) * kImage);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  std::vector<std::int32_t> y;
  for (std::int64_t r = 0; r < rows; ++r) y.push_back(static_cast<std::int32_t>(r));
  return memory_dataset(std::move(x), {kHeight, kWidth, kChannels}, std::move(y), rows);
}

using Images = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>>;

// The images by epoch and row, from position `from` on.
Images read(std::int64_t rows, LoaderOptions options, std::int64_t from = 0, int towers = 1) {
  Context context({.towers = "cpu:" + std::to_string(towers), .seed = 3});
  Loader loader(context, numbered(rows), options);
  loader.seek(from);
  Images out;
  for (Batch b; loader.next(b);) {
    const std::vector<double> x = b["image"].to_vector(), label = b["label"].to_vector();
    for (std::size_t r = 0; r < label.size(); ++r)
      out[{b.epoch, static_cast<std::int64_t>(label[r])}] = {
          x.begin() + static_cast<std::ptrdiff_t>(r * kImage),
          x.begin() + static_cast<std::ptrdiff_t>((r + 1) * kImage)};
  }
  return out;
}

// Row `row` shifted and mirrored, or nothing where `image` is no such image.
struct Change {
  std::int64_t dy, dx;
  bool flip;
};
std::optional<Change> change_of(const std::vector<double>& image, std::int64_t row,
                                std::int64_t most) {
  for (std::int64_t dy = -most; dy <= most; ++dy)
    for (std::int64_t dx = -most; dx <= most; ++dx)
      for (const bool flip : {false, true}) {
        bool same = true;
        for (std::size_t i = 0; i < kImage && same; ++i) {
          const auto c = static_cast<std::int64_t>(i) % kChannels,
                     x = static_cast<std::int64_t>(i) / kChannels % kWidth,
                     y = static_cast<std::int64_t>(i) / (kChannels * kWidth);
          const std::int64_t from_y = y + dy, from_x = (flip ? kWidth - 1 - x : x) + dx;
          const bool inside = from_y >= 0 && from_y < kHeight && from_x >= 0 && from_x < kWidth;
          const auto at = (from_y * kWidth + from_x) * kChannels + c;
          same =
              image[i] == (inside ? static_cast<double>(row * std::int64_t{kImage} + at + 1) : 0);
        }
        if (same) return Change{dy, dx, flip};
      }
  return std::nullopt;
}

const LoaderOptions kBoth{.batch = 7, .epochs = 2, .augment = {.pad_crop = 2, .flip = true}};

}  // namespace

TEST_CASE("images are shifted by up to pad_crop pixels and mirrored, all ways equally often") {
  const std::int64_t rows = 1000;
  const Images images = read(rows, kBoth);
  REQUIRE(images.size() == 2 * rows);
  std::map<std::int64_t, int> down, right, flipped;
  int same = 0;
  std::map<std::int64_t, Change> first;
  for (const auto& [key, image] : images) {
    const std::optional<Change> c = change_of(image, key.second, 2);
    INFO("epoch " << key.first << ", row " << key.second);
    REQUIRE(c.has_value());
    ++down[c->dy], ++right[c->dx], ++flipped[c->flip ? 1 : 0];
    if (key.first == 0) first[key.second] = *c;
    const Change& f = first[key.second];
    same += key.first == 1 && f.dy == c->dy && f.dx == c->dx && f.flip == c->flip ? 1 : 0;
  }
  for (const auto& counts : {down, right})
    for (std::int64_t d = -2; d <= 2; ++d)
      CHECK(std::abs(counts.at(d) - 400) <= 80);  // 4.5 standard deviations
  CHECK(std::abs(flipped[1] - 1000) <= 100);
  CHECK(same <= 50);  // of 1000; 20 are expected
}

TEST_CASE(
    "what an image becomes does not depend on batches, towers, prefetching or where a run "
    "starts") {
  const Images whole = read(50, kBoth);
  LoaderOptions other = kBoth;
  other.batch = 11;
  other.prefetch = 0;
  CHECK(read(50, other, 0, 3) == whole);
  const Images rest = read(50, kBoth, 50 + 14);
  REQUIRE(rest.size() == 36);
  for (const auto& [key, image] : rest) CHECK(whole.at(key) == image);
}

TEST_CASE("each of shift and mirror alone, and neither") {
  const auto all = [](AugmentOptions augment, auto&& check) {
    LoaderOptions options = kBoth;
    options.augment = augment;
    for (const auto& [key, image] : read(40, options)) {
      const auto c = change_of(image, key.second, 2);
      REQUIRE(c.has_value());
      check(*c);
    }
  };
  int moved = 0, flipped = 0;
  all({.pad_crop = 1}, [&](const Change& c) {
    CHECK_FALSE(c.flip);
    CHECK(std::max(std::abs(c.dy), std::abs(c.dx)) <= 1);
    moved += c.dy != 0 || c.dx != 0 ? 1 : 0;
  });
  all({.flip = true}, [&](const Change& c) {
    CHECK(c.dy == 0);
    CHECK(c.dx == 0);
    flipped += c.flip ? 1 : 0;
  });
  CHECK(moved >= 50);
  CHECK(std::abs(flipped - 40) <= 20);
  all({}, [](const Change& c) { CHECK_FALSE((c.flip || c.dy != 0 || c.dx != 0)); });
}

TEST_CASE("rows that are no images, and options out of range") {
  Context context({.towers = "cpu:1"});
  const auto flat = memory_dataset(std::vector<float>(12), Shape{6}, {0, 1}, 2);
  CHECK_THROWS_WITH(Loader(context, flat, {.augment = {.flip = true}}),
                    Contains("[6]") && Contains("[rows, columns, channels]"));
  CHECK_THROWS_WITH(Loader(context, numbered(2), {.augment = {.pad_crop = 4}}),
                    Contains("[5, 4, 2]") && Contains("pad_crop = 4"));
  CHECK_THROWS_WITH(Loader(context, numbered(2), {.augment = {.pad_crop = -1}}),
                    Contains("pad_crop"));
  std::vector<MemoryField> fields{{"words", Shape{2}, std::vector<float>(4)}};
  CHECK_THROWS_WITH(Loader(context, memory_dataset(std::move(fields)), {.augment = {.flip = true}}),
                    Contains("no field 'image'"));
}
