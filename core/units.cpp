// SPDX-License-Identifier: MIT
#include "belfry/core/units.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr double kLargest = 9007199254740992.0;  // 2^53: whole numbers are exact below it

[[noreturn]] void throw_bad_period(std::string_view text, std::string_view what) {
  throw ConfigError(ErrorText{.what = std::string(what),
                              .found = "'" + std::string(text) + "'",
                              .expected = "a length such as 500u (updates), 2e (epochs), 10krows "
                                          "or 1Mrows (rows)"});
}

// The number before a unit: digits, at most one point, no sign and no exponent.
bool parse_number(std::string_view text, double* value) {
  if (text.empty() || text.find_first_not_of("0123456789.") != text.npos) return false;
  if (text.front() == '.' || text.back() == '.') return false;
  const auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), *value, std::chars_format::fixed);
  return status == std::errc() && end == text.data() + text.size() && *value < kLargest;
}

bool take_suffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

// A product of decimals that binary could not hold: the whole number it misses by a rounding.
double settled(double product) {
  const double whole = std::round(product), off = std::abs(product - whole);
  return off <= 4 * std::numeric_limits<double>::epsilon() * whole ? whole : product;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

Period Period::parse(std::string_view text, std::string_view what) {
  std::string_view rest = text;
  Period out;
  double factor = 1;
  if (take_suffix(&rest, "rows")) {
    out.unit = Unit::rows;
    if (take_suffix(&rest, "k"))
      factor = 1e3;
    else if (take_suffix(&rest, "M"))
      factor = 1e6;
  } else if (take_suffix(&rest, "e")) {
    out.unit = Unit::epochs;
  } else {
    take_suffix(&rest, "u");
  }
  double number = 0;
  if (!parse_number(rest, &number)) throw_bad_period(text, what);
  out.value = settled(number * factor);
  const bool whole = out.value == std::floor(out.value);
  if (out.value >= kLargest || (out.unit != Unit::epochs && !whole)) throw_bad_period(text, what);
  return out;
}

std::int64_t Period::to_updates(std::int64_t rows_per_epoch, std::int64_t global_batch) const {
  if (unit == Unit::updates) return static_cast<std::int64_t>(value);
  if (global_batch <= 0)
    throw ConfigError(ErrorText{.what = "a period in rows or epochs needs a global batch",
                                .found = std::to_string(global_batch),
                                .expected = "at least 1"});
  if (unit == Unit::rows) return ceil_div(static_cast<std::int64_t>(value), global_batch);
  if (rows_per_epoch <= 0)
    throw ConfigError(ErrorText{.what = "'" + to_string(*this) + "' counts epochs",
                                .found = "data without a number of rows per epoch",
                                .fix = "use updates (500u) or rows (10krows)"});
  const double updates =
      settled(value * static_cast<double>(ceil_div(rows_per_epoch, global_batch)));
  if (updates >= kLargest)
    throw ConfigError(ErrorText{.what = "'" + to_string(*this) + "' is too long",
                                .expected = "fewer than 2^53 updates"});
  return static_cast<std::int64_t>(std::ceil(updates));
}

std::string to_string(const Period& period) {
  double value = period.value;
  std::string suffix = period.unit == Period::Unit::updates ? "u" : "e";
  if (period.unit == Period::Unit::rows) {
    suffix = "rows";
    for (const auto& [factor, prefix] : {std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
      if (value == 0 || std::fmod(value, factor) != 0) continue;
      value /= factor;
      suffix = prefix + suffix;
      break;
    }
  }
  char text[400];
  const auto [end, status] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  return std::string(text, end) + suffix;
}

}  // namespace belfry
