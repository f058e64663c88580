// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"

#include <exception>

namespace belfry {
namespace {

void append_place(std::string& out, const ErrorText& text) {
  if (text.file.empty()) return;
  out += text.file;
  if (text.line > 0) out += ":" + std::to_string(text.line);
  if (text.line > 0 && text.column > 0) out += ":" + std::to_string(text.column);
  out += ": ";
}

void append_values(std::string& out, const ErrorText& text) {
  if (!text.found.empty()) out += ": found " + text.found;
  if (!text.expected.empty())
    out += (text.found.empty() ? ": expected " : ", expected ") + text.expected;
  if (!text.fix.empty()) out += "; " + text.fix;
}

void append_position(std::string& out, const ErrorText& text) {
  std::string inside;
  const auto add = [&inside](const char* name, std::int64_t value) {
    if (value < 0) return;
    if (!inside.empty()) inside += ", ";
    inside += name + std::to_string(value);
  };
  add("rank ", text.rank);
  add("tower ", text.tower);
  add("update ", text.update);
  if (!inside.empty()) out += " [" + inside + "]";
}

std::string format(const ErrorText& text) {
  std::string out;
  append_place(out, text);
  out += text.what;
  append_values(out, text);
  append_position(out, text);
  return out;
}

// The messages of an exception and of those nested in it, outermost first.
std::string chain_text(const std::exception& error) {
  std::string out = error.what();
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    out += ": " + chain_text(inner);
  } catch (...) {
    out += ": an exception that is not a std::exception";
  }
  return out;
}

ErrorText located(ErrorText text, int rank, int tower, std::int64_t update) {
  if (text.rank < 0) text.rank = rank;
  if (text.tower < 0) text.tower = tower;
  if (text.update < 0) text.update = update;
  return text;
}

}  // namespace

std::string_view name_of(ErrorClass kind) {
  switch (kind) {
    case ErrorClass::config:
      return "ConfigError";
    case ErrorClass::data:
      return "DataError";
    case ErrorClass::gradient:
      return "GradientError";
    case ErrorClass::numeric:
      return "NumericError";
    case ErrorClass::checkpoint:
      return "CheckpointError";
    case ErrorClass::device:
      return "DeviceError";
    case ErrorClass::comm:
      return "CommError";
    case ErrorClass::tower:
      break;
  }
  return "TowerError";
}

Error::Error(ErrorClass kind, ErrorText text)
    : std::runtime_error(format(text)), kind_(kind), text_(std::move(text)) {}

void throw_error(ErrorClass kind, ErrorText text) {
  switch (kind) {
    case ErrorClass::config:
      throw ConfigError(std::move(text));
    case ErrorClass::data:
      throw DataError(std::move(text));
    case ErrorClass::gradient:
      throw GradientError(std::move(text));
    case ErrorClass::numeric:
      throw NumericError(std::move(text));
    case ErrorClass::checkpoint:
      throw CheckpointError(std::move(text));
    case ErrorClass::device:
      throw DeviceError(std::move(text));
    case ErrorClass::comm:
      throw CommError(std::move(text));
    case ErrorClass::tower:
      break;
  }
  throw TowerError(std::move(text));
}

void rethrow_located(std::exception_ptr error, int rank, int tower, std::int64_t update) {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& e) {
    const auto* nested = dynamic_cast<const std::nested_exception*>(&e);
    if (nested == nullptr || nested->nested_ptr() == nullptr || e.kind() != ErrorClass::tower)
      throw_error(e.kind(), located(e.text(), rank, tower, update));
    ErrorText text = located(e.text(), rank, tower, update);
    try {
      nested->rethrow_nested();
    } catch (...) {
      std::throw_with_nested(TowerError(std::move(text)));
    }
  } catch (const std::exception& e) {
    std::throw_with_nested(TowerError(located({.what = chain_text(e)}, rank, tower, update)));
  } catch (...) {
    std::throw_with_nested(TowerError(
        located({.what = "an exception that is not a std::exception"}, rank, tower, update)));
  }
}

}  // namespace belfry
