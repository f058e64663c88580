// SPDX-License-Identifier: MIT
#include "belfry/data/memory.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "belfry/core/error.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"

namespace belfry {
namespace {

template <class T>
constexpr DType dtype_of_value() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  return DType::u8;
}

DType dtype_of(const MemoryField& field) {
  return std::visit(
      [](const auto& v) {
        return dtype_of_value<typename std::decay_t<decltype(v)>::value_type>();
      },
      field.values);
}

std::int64_t count_rows(const MemoryField& field) {
  const auto values =
      std::visit([](const auto& v) { return static_cast<std::int64_t>(v.size()); }, field.values);
  const std::int64_t each = field.shape.size();
  if (each > 0 && values % each == 0) return values / each;
  throw DataError(ErrorText{
      .what = "the values of field '" + field.name + "' do not fill whole rows",
      .found = count_text(values, "value"),
      .expected = "a multiple of " + std::to_string(each) + ", the size of " + field.shape.text()});
}

class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(std::vector<MemoryField> fields, const LabelOptions& labels)
      : values_(std::move(fields)) {
    if (values_.empty()) throw DataError("an in-memory data set needs at least one field");
    rows_ = count_rows(values_.front());
    for (const MemoryField& f : values_) add(f, labels);
    if (rows_ == 0)
      throw DataError(ErrorText{.what = "the in-memory data set is empty",
                                .found = "0 rows",
                                .expected = "at least 1 row"});
  }

  std::int64_t rows() const override { return rows_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  std::string describe() const override {
    return "memory: " + fields_text(rows_, fields_) + classes_text(classes_, 0);
  }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    check_read(rows, rows_, out.size(), fields_.size());
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::size_t bytes =
          static_cast<std::size_t>(fields_[f].shape.size()) * size_of(fields_[f].dtype);
      auto* to = static_cast<std::byte*>(out[f]);
      std::visit(
          [&](const auto& v) {
            const auto* from = reinterpret_cast<const std::byte*>(v.data());
            for (const std::int64_t r : rows) {
              std::memcpy(to, from + static_cast<std::size_t>(r) * bytes, bytes);
              to += bytes;
            }
          },
          values_[f].values);
    }
  }

 private:
  void add(const MemoryField& field, const LabelOptions& labels) {
    const std::int64_t rows = count_rows(field);
    if (rows != rows_)
      throw DataError(ErrorText{
          .what = "the fields differ in their number of rows",
          .found = count_text(rows, "row") + " in '" + field.name + "'",
          .expected = count_text(rows_, "row") + " as in '" + values_.front().name + "'"});
    for (const Field& f : fields_)
      if (f.name == field.name) throw DataError("field '" + field.name + "' is given twice");
    fields_.push_back({field.name, field.shape, dtype_of(field)});
    if (field.name != "label" || is_floating(fields_.back().dtype)) return;
    classes_ = std::visit(
        [&](const auto& v) {
          return check_labels("", rows, labels, [&v](std::int64_t r) {
            return static_cast<std::int64_t>(v[static_cast<std::size_t>(r)]);
          });
        },
        field.values);
  }

  std::vector<MemoryField> values_;
  std::vector<Field> fields_;
  std::int64_t rows_ = 0;
  std::int64_t classes_ = 0;
};

}  // namespace

std::shared_ptr<const Dataset> memory_dataset(std::vector<MemoryField> fields,
                                              LabelOptions labels) {
  return std::make_shared<MemoryDataset>(std::move(fields), labels);
}

std::shared_ptr<const Dataset> memory_dataset(std::vector<float> images, const Shape& image,
                                              std::vector<std::int32_t> labels,
                                              std::int64_t classes) {
  std::vector<MemoryField> fields;
  fields.push_back({"image", image, std::move(images)});
  fields.push_back({"label", Shape{}, std::move(labels)});
  return memory_dataset(std::move(fields), LabelOptions{.classes = classes});
}

}  // namespace belfry
