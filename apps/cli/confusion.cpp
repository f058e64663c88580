// SPDX-License-Identifier: MIT
#include "belfry/apps/cli/confusion_internal.h"
#include "belfry/core/error.h"
#include "belfry/core/log.h"

namespace belfry {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

Confusion::Confusion(const Dataset& data, std::int64_t ignore)
    : classes_(static_cast<std::size_t>(data.classes())),
      ignore_(ignore),
      names_(data.class_names()),
      counts_(classes_ * classes_, 0) {
  for (std::size_t c = names_.size(); c < classes_; ++c) names_.push_back(std::to_string(c));
}

void Confusion::require(const Dataset& data) {
  constexpr std::int64_t kMost = 4096;
  if (data.classes() == 0)
    throw ConfigError(ErrorText{.what = "--confusion is for classes", .found = data.describe()});
  if (data.classes() > kMost)
    throw ConfigError(ErrorText{.what = "--confusion is for fewer classes",
                                .found = std::to_string(data.classes()),
                                .expected = "at most " + std::to_string(kMost)});
}

void Confusion::add(const Prediction& p) {
  const auto row = static_cast<std::int64_t>(p.label);
  if (row == ignore_ || row < 0 || row >= static_cast<std::int64_t>(classes_)) return;
  ++counts_[static_cast<std::size_t>(row) * classes_ + static_cast<std::size_t>(p.predicted)];
}

std::string Confusion::text() const {
  std::string out = "label";
  for (const std::string& name : names_) out += "," + csv_cell(name);
  out += ",recall\n";
  for (std::size_t r = 0; r < classes_; ++r) {
    const std::int64_t* const row = counts_.data() + r * classes_;
    std::int64_t all = 0;
    out += csv_cell(names_[r]);
    for (std::size_t c = 0; c < classes_; ++c) {
      all += row[c];
      out += "," + std::to_string(row[c]);
    }
    const double share = all == 0 ? 0 : static_cast<double>(row[r]) / static_cast<double>(all);
    out += all == 0 ? std::string(",\n") : fmt::format(",{:.4f}\n", share);
  }
  return out;
}

}  // namespace belfry
