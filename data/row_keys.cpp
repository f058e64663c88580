// SPDX-License-Identifier: MIT
#include "belfry/data/row_keys.h"

#include <algorithm>

#include "belfry/core/key_text.h"
#include "belfry/data/dataset_view.h"

namespace belfry {
namespace {

class KeyedData final : public DatasetView {
 public:
  KeyedData(std::shared_ptr<const Dataset> data, RowKeys keys)
      : DatasetView(std::move(data)), keys_(std::move(keys)) {}
  RowKeys row_keys() const override { return keys_; }

 private:
  RowKeys keys_;
};

std::string text_of(const KeyTarget& target) {
  const auto* const* list = std::get_if<std::vector<double>*>(&target);
  if (list == nullptr || (*list)->empty()) return key_text(target);
  std::vector<double> values = **list;
  if (std::count(values.begin(), values.end(), values[0]) == std::ssize(values)) values.resize(1);
  return key_text(KeyTarget(&values));
}

}  // namespace

RowKeys row_keys_of(const std::string& kind, DatasetFactory& factory) {
  RowKeys out{{"name", kind}};
  Schema schema;
  factory.declare(schema);
  const std::vector<std::string> names = factory.row_keys();
  for (const Key& key : schema.keys())
    if (std::find(names.begin(), names.end(), key.name) != names.end())
      out[key.name] = text_of(key.target);
  return out;
}

std::shared_ptr<const Dataset> with_row_keys(std::shared_ptr<const Dataset> data, RowKeys keys) {
  return std::make_shared<KeyedData>(std::move(data), std::move(keys));
}

std::string row_keys_text(const RowKeys& keys) {
  std::string out;
  for (const auto& [key, value] : keys) out += (out.empty() ? "" : ", ") + key + " = " + value;
  return out;
}

}  // namespace belfry
