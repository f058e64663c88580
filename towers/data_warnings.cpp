// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "belfry/towers/data_warnings_internal.h"

namespace belfry {
namespace {

// Root mean squares beyond these: pixels of 0 to 255 have about 100, standardized rows 1.
constexpr double kLargeFeature = 30, kLargeTarget = 100;

// The column of the largest root mean square, and that.
std::pair<std::size_t, double> largest(const std::vector<float>& values, std::size_t width) {
  std::vector<double> squares(width);
  for (std::size_t i = 0; i < values.size(); ++i)
    squares[i % width] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  const auto most = std::max_element(squares.begin(), squares.end());
  const double rows = static_cast<double>(values.size()) / static_cast<double>(width);
  return {static_cast<std::size_t>(most - squares.begin()), std::sqrt(*most / rows)};
}

// "column 'year'" where a header names it.
std::string column_text(const Dataset& data, std::size_t column) {
  for (const auto& [name, place] : data.figures())
    if (name.starts_with("column.") && place == std::vector{static_cast<double>(column)})
      return "column '" + name.substr(7) + "'";
  return "number " + std::to_string(column) + " of a row (from 0)";
}

void warn_of_classes(const Dataset& data, std::vector<std::string>& texts) {
  constexpr std::int64_t kFew = 20;
  const bool one_each = std::any_of(data.fields().begin(), data.fields().end(), [](const Field& f) {
    return f.name == "label" && f.shape.rank() == 0;
  });
  if (one_each && data.classes() > kFew && data.classes() > data.rows() / 2)
    texts.push_back(fmt::format("{} classes in {} rows: is that the right label?", data.classes(),
                                data.rows()));
}

void warn_of_sizes(const Dataset& data, bool standardize, std::vector<std::string>& texts) {
  std::vector<std::int64_t> rows(
      static_cast<std::size_t>(std::min<std::int64_t>(data.rows(), 256)));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<std::vector<float>> values;
  std::vector<void*> out;
  for (const Field& f : data.fields()) {  // f32 and i32
    if (size_of(f.dtype) != sizeof(float)) return;
    values.emplace_back(rows.size() * static_cast<std::size_t>(f.shape.size()));
  }
  for (std::vector<float>& v : values) out.push_back(v.data());
  data.read(rows, out);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Field& f = data.fields()[k];
    if (f.dtype != DType::f32) continue;
    const auto [column, size] = largest(values[k], static_cast<std::size_t>(f.shape.size()));
    if (f.name == "target" && size > kLargeTarget)
      texts.push_back(fmt::format(
          "targets are as large as {:.3g}: losses are in their unit, and training may not get "
          "there; bring them to a size of about 1 in the file",
          size));
    if (f.name != "target" && size > kLargeFeature)
      texts.push_back(fmt::format(
          "{} is as large as {:.3g} (root mean square of {} rows), which is hard to train on; set "
          "data.{} to bring it to a size of about 1",
          column_text(data, column), size, rows.size(),
          standardize ? "standardize = true" : "scale, or data.mean and data.std,"));
  }
}

}  // namespace

std::vector<std::string> data_warnings(const Dataset& data, bool scale, bool standardize) {
  std::vector<std::string> texts;
  warn_of_classes(data, texts);
  if (scale) warn_of_sizes(data, standardize, texts);
  return texts;
}

}  // namespace belfry
