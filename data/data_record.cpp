// SPDX-License-Identifier: MIT
#include "belfry/data/data_record.h"

#include <cstring>

#include "belfry/core/names_text.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/options.h"

namespace belfry {
namespace {

class RecordedData final : public Dataset {
 public:
  explicit RecordedData(DataRecord record) : record_(std::move(record)) {}
  std::int64_t rows() const override { return 1; }
  const std::vector<Field>& fields() const override { return record_.fields; }
  std::int64_t classes() const override { return record_.classes; }
  std::vector<std::string> class_names() const override { return record_.class_names; }
  std::string label_unit() const override { return record_.label_unit; }
  Figures figures() const override { return record_.figures; }
  RowKeys row_keys() const override { return record_.row_keys; }
  std::string describe() const override {
    return "as in the checkpoint: " + fields_text(record_.rows, record_.fields) +
           classes_text(record_.classes, 0);
  }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    check_read(rows, 1, out.size(), record_.fields.size());
    for (std::size_t f = 0; f < record_.fields.size(); ++f) {
      const Field& field = record_.fields[f];
      const auto values = static_cast<std::size_t>(field.shape.size()) * rows.size();
      std::memset(out[f], 0, values * size_of(field.dtype));
    }
  }

 private:
  DataRecord record_;
};

std::string field_text(const Field& f) {
  return f.name + " " + f.shape.text() + " " + std::string(name_of(f.dtype));
}

std::string fields_text_of(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& f : fields) out += (out.empty() ? "" : ", ") + field_text(f);
  return out;
}

}  // namespace

DataRecord record_of(const Dataset& data) {
  return {data.rows(),       data.classes(), data.fields(),  data.class_names(),
          data.label_unit(), data.figures(), data.row_keys()};
}

std::vector<std::string> data_changes(const DataRecord& before, const DataRecord& now) {
  std::vector<std::string> out;
  if (before.rows == 0 || now.rows == 0) return out;
  const auto note = [&out](const std::string& old_text, const std::string& new_text) {
    if (old_text != new_text) out.push_back(old_text + " -> " + new_text);
  };
  note(count_text(before.rows, "row"), count_text(now.rows, "row"));
  note(fields_text_of(before.fields), fields_text_of(now.fields));
  note(std::to_string(before.classes) + " classes", std::to_string(now.classes) + " classes");
  note(names_text(before.class_names), names_text(now.class_names));
  for (const auto& [key, value] : now.row_keys)
    if (const auto old = before.row_keys.find(key); old != before.row_keys.end())
      note(key + " = " + old->second, key + " = " + value);
  if (before.figures != now.figures) out.emplace_back("other figures measured on the rows");
  return out;
}

std::shared_ptr<const Dataset> recorded_data(DataRecord record) {
  return std::make_shared<RecordedData>(std::move(record));
}

}  // namespace belfry
