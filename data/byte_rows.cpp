// SPDX-License-Identifier: MIT
#include "belfry/data/byte_rows.h"

#include <algorithm>

#include "belfry/core/key_error.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/options.h"

namespace belfry {

ByteImages::ByteImages(Content content)
    : content_(std::move(content)),
      fields_{{"image", content_.shape, DType::f32}, {"label", Shape{}, DType::i32}} {
  const auto channels = static_cast<std::size_t>(content_.shape[2]);
  check_normalisation(content_.mean, content_.stddev, channels);
  tables_.resize(std::max(content_.mean.size(), content_.stddev.size()));
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    const double mean = content_.mean[content_.mean.size() == 1 ? 0 : c];
    const double stddev = content_.stddev[content_.stddev.size() == 1 ? 0 : c];
    for (std::size_t v = 0; v < 256; ++v)
      tables_[c][v] = static_cast<float>((static_cast<double>(v) / 255.0 - mean) / stddev);
  }
}

void ByteImages::read(std::span<const std::int64_t> rows, std::span<void* const> out) const {
  check_read(rows, this->rows(), out.size(), fields_.size());
  const auto pixels = static_cast<std::size_t>(content_.shape.size());
  const std::size_t channels = tables_.size();
  auto* image = static_cast<float*>(out[0]);
  auto* label = static_cast<std::int32_t*>(out[1]);
  for (const std::int64_t row : rows) {
    const auto r = static_cast<std::size_t>(row);
    const std::uint8_t* in = content_.pixels.data() + r * pixels;
    if (channels == 1) {
      const auto& table = tables_[0];
      for (std::size_t i = 0; i < pixels; ++i) image[i] = table[in[i]];
    } else {
      for (std::size_t i = 0; i < pixels; i += channels)
        for (std::size_t c = 0; c < channels; ++c) image[i + c] = tables_[c][in[i + c]];
    }
    image += pixels;
    *label++ = content_.labels[r];
  }
}

std::string ByteImages::describe() const {
  if (content_.unlabelled) return content_.kind + ": " + fields_text(rows(), fields_, false);
  const auto smallest = std::min_element(content_.labels.begin(), content_.labels.end());
  return content_.kind + ": " + fields_text(rows(), fields_) +
         classes_text(content_.classes, smallest == content_.labels.end() ? 0 : *smallest);
}

RowPlace ByteImages::place(std::int64_t row) const {
  const std::int64_t at = content_.first + row;
  std::int64_t start = 0;
  for (const auto& [file, end] : content_.files) {
    if (at < end) return {content_.files.size() > 1 ? file : "", at - start};
    start = end;
  }
  return {"", at};
}

void check_read(std::span<const std::int64_t> indices, std::int64_t rows, std::size_t buffers,
                std::size_t fields) {
  if (buffers != fields)
    throw DataError(ErrorText{.what = "a read needs one buffer a field",
                              .found = std::to_string(buffers),
                              .expected = std::to_string(fields)});
  for (const std::int64_t r : indices)
    if (r < 0 || r >= rows)
      throw DataError(ErrorText{.what = "a row index is out of range",
                                .found = std::to_string(r),
                                .expected = "[0, " + std::to_string(rows) + ")"});
}

void check_normalisation(const std::vector<double>& mean, const std::vector<double>& stddev,
                         std::size_t channels) {
  const auto check = [&](const std::string& key, const std::vector<double>& values, bool positive) {
    if (values.size() != 1 && values.size() != channels)
      throw KeyError(
          key, ErrorText{.what = "`" + key + "` does not fit the channels",
                         .found = count_text(static_cast<std::int64_t>(values.size()), "value"),
                         .expected = channels == 1 ? "1, as the rows have 1 channel"
                                                   : "1 or " + std::to_string(channels) +
                                                         ", one a channel of the rows"});
    for (const double v : values) check_number(key, v, positive);
  };
  check("mean", mean, false);
  check("std", stddev, true);
}

std::string fields_text(std::int64_t rows, const std::vector<Field>& fields, bool answers) {
  std::string out = count_text(rows, "row");
  for (const Field& f : fields) {
    if (!answers && (f.name == "label" || f.name == "target")) continue;
    out += ", " + f.name;
    if (f.shape.rank() > 0) out += " " + f.shape.text();
    out += " " + std::string(name_of(f.dtype));
  }
  return out;
}

}  // namespace belfry
