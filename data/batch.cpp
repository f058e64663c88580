// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/core/names_text.h"
#include "belfry/data/loader.h"

namespace belfry {

const Tensor& Batch::operator[](const std::string& field) const {
  for (const auto& [name, tensor] : fields_)
    if (name == field) return tensor;
  throw DataError(
      ErrorText{.what = "the batch has no such field",
                .found = "'" + field + "'",
                .expected = fields_.empty() ? "nothing, the batch is empty" : names_text(names())});
}

void Batch::add(const std::string& field, Tensor tensor) {
  for (const auto& [name, present] : fields_)
    if (name == field) throw DataError("field '" + field + "' is in the batch already");
  fields_.emplace_back(field, std::move(tensor));
}

Batch Batch::slice(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > rows || count > rows - first)
    throw DataError(ErrorText{.what = "a slice lies outside the batch",
                              .found = "rows [" + std::to_string(first) + ", " +
                                       std::to_string(first) + " + " + std::to_string(count) + ")",
                              .expected = "rows inside [0, " + std::to_string(rows) + ")"});
  Batch out;
  out.place(*this);
  out.rows = count;
  out.first_row = first_row + first;
  for (const auto& [name, tensor] : fields_)
    out.fields_.emplace_back(name, tensor.rows(first, count));
  return out;
}

std::vector<std::string> Batch::names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : fields_) out.push_back(name);
  return out;
}

}  // namespace belfry
