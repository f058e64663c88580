// SPDX-License-Identifier: MIT
#include "belfry/data/token_windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/options.h"

namespace belfry {

void WindowOptions::declare(Schema& schema, const std::string& unit) {
  schema.key("context", context, {.min = 1, .max = 1e7, .unit = unit, .help = "positions of a row"})
      .key("first", first, {.min = 0, .unit = unit, .help = "first to use"})
      .key("count", count,
           {.min = -1, .unit = unit, .help = "how many to use; -1: all from `first` on"})
      .key("part", part,
           {.choices = {"all", "train", "validation"},
            .help = "of those: all, without the last `holdout`, or that alone"})
      .key("holdout", holdout,
           {.min = 0,
            .max = 1,
            .exclusive_min = true,
            .exclusive_max = true,
            .help = "share kept for part = \"validation\""});
}

TokenWindows::TokenWindows(Content content, const WindowOptions& options)
    : content_(std::move(content)), context_(options.context) {
  WindowOptions checked = options;
  Schema schema;
  checked.declare(schema, content_.unit + "s");
  schema.validate(content_.kind);
  fields_ = {{"tokens", Shape{context_}, DType::i32}, {"label", Shape{context_}, DType::i32}};
  cut(options);
  check_tokens();
}

// Leaves what is used alone.
void TokenWindows::cut(const WindowOptions& o) {
  const auto width = static_cast<std::int64_t>(content_.width);
  const std::int64_t all = static_cast<std::int64_t>(content_.bytes.size()) / width;
  const std::int64_t wanted = o.count < 0 ? all - std::min(o.first, all) : o.count;
  if (o.first > all || wanted > all - o.first)
    throw DataError(ErrorText{
        .what = "the range does not lie inside the data",
        .found = "first " + std::to_string(o.first) + ", count " + std::to_string(o.count),
        .expected = count_text(all, content_.unit),
        .fix = "change `first` or `count`",
        .file = content_.file});
  const auto held =
      static_cast<std::int64_t>(std::llround(static_cast<double>(wanted) * o.holdout));
  first_ = o.first + (o.part == "validation" ? wanted - held : 0);
  count_ = o.part == "all" ? wanted : o.part == "train" ? wanted - held : held;
  rows_ = count_ < 1 ? 0 : (count_ - 1) / context_;
  if (rows_ < 1)
    throw DataError(
        ErrorText{.what = "there is not one row",
                  .found = count_text(count_, content_.unit),
                  .expected = "at least " + std::to_string(context_ + 1) + ", context + 1",
                  .fix = "use a smaller context or more data",
                  .file = content_.file});
  auto& b = content_.bytes;
  b.erase(b.begin() + (first_ + count_) * width, b.end());
  b.erase(b.begin(), b.begin() + first_ * width);
  b.shrink_to_fit();
}

std::int64_t TokenWindows::token(std::int64_t index) const {
  const std::uint8_t* p = content_.bytes.data() + static_cast<std::size_t>(index) * content_.width;
  std::uint32_t value = 0;
  for (std::size_t i = content_.width; i-- > 0;) value = value << 8 | p[i];
  return value;
}

void TokenWindows::check_tokens() {
  std::int64_t largest = 0, at = 0;
  for (std::int64_t i = 0; i < count_; ++i)
    if (const std::int64_t t = token(i); t > largest) largest = t, at = i;
  const bool given = content_.classes > 0;
  const std::int64_t limit =
      given ? content_.classes : std::min<std::int64_t>(kMostClasses, largest + 1);
  if (largest >= limit)
    throw DataError(ErrorText{
        .what = given ? "a token is outside the vocabulary" : "a token is too large to be one",
        .found = "token " + std::to_string(largest) + " at " + std::to_string(first_ + at),
        .expected = "tokens in [0, " + std::to_string(limit) + ")",
        .fix = given ? "raise `vocabulary`, or give the file that belongs to it"
                     : "check `dtype`; set `vocabulary` if that is meant",
        .file = content_.file});
  content_.classes = limit;
}

void TokenWindows::read(std::span<const std::int64_t> rows, std::span<void* const> out) const {
  read_from(0, rows, out);
}

void TokenWindows::read_epoch(std::span<const std::int64_t> rows, const ReadEpoch& epoch,
                              std::span<void* const> out) const {
  if (!epoch.shuffled) return read(rows, out);
  const auto number = static_cast<std::uint64_t>(epoch.number);
  const auto words = philox_key(epoch.seed, Purpose::augment)(
      static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0);
  const std::uint64_t draw = std::uint64_t{words.v[0]} << 16 | words.v[1] >> 16;
  read_from(static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(context_)), rows, out);
}

void TokenWindows::read_from(std::int64_t offset, std::span<const std::int64_t> rows,
                             std::span<void* const> out) const {
  check_read(rows, rows_, out.size(), fields_.size());
  auto* tokens = static_cast<std::int32_t*>(out[0]);
  auto* labels = static_cast<std::int32_t*>(out[1]);
  for (const std::int64_t row : rows) {
    std::int64_t at = (offset + row * context_) % count_;
    auto value = static_cast<std::int32_t>(token(at));
    for (std::int64_t i = 0; i < context_; ++i) {
      *tokens++ = value;
      if (++at == count_) at = 0;
      *labels++ = value = static_cast<std::int32_t>(token(at));
    }
  }
}

std::string TokenWindows::describe() const {
  return content_.kind + ": " + count_text(count_, content_.unit) + ", " +
         fields_text(rows_, fields_) + classes_text(content_.classes, 0);
}

}  // namespace belfry
