// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace belfry {

// The eight classes of failure. Apps map each to one exit code; libraries only throw.
enum class ErrorClass : std::uint8_t {
  config,
  data,
  gradient,
  numeric,
  checkpoint,
  device,
  comm,
  tower
};

std::string_view name_of(ErrorClass kind);

// What an error says. `what` is required; the rest is left out of the message where empty or -1.
struct ErrorText {
  std::string what{};      // one clause: "batch is out of range"
  std::string found{};     // the offending value
  std::string expected{};  // what would have been right
  std::string fix{};       // what to do
  std::string file{};      // where in the user's files; line and column count from 1
  std::int64_t line = 0;
  std::int64_t column = 0;
  int rank = -1;             // process
  int tower = -1;            // global tower index
  std::int64_t update = -1;  // counted from 1
};

// Base of all errors of the library. The message is formatted once, as
// "file:line:column: what: found X, expected Y; fix [rank r, tower t, update u]".
class Error : public std::runtime_error {
 public:
  Error(ErrorClass kind, ErrorText text);
  ErrorClass kind() const noexcept { return kind_; }
  const ErrorText& text() const noexcept { return text_; }

 private:
  ErrorClass kind_;
  ErrorText text_;
};

template <ErrorClass K>
class TypedError : public Error {
 public:
  explicit TypedError(ErrorText text) : Error(K, std::move(text)) {}
  explicit TypedError(std::string what) : Error(K, ErrorText{.what = std::move(what)}) {}
};

using ConfigError = TypedError<ErrorClass::config>;  // a key, flag, unit or argument
using DataError = TypedError<ErrorClass::data>;      // a data file or a row of it
using GradientError =
    TypedError<ErrorClass::gradient>;                  // missing or mismatched gradients, op misuse
using NumericError = TypedError<ErrorClass::numeric>;  // non-finite values
using CheckpointError = TypedError<ErrorClass::checkpoint>;  // saving and loading
using DeviceError = TypedError<ErrorClass::device>;          // device, driver, memory
using CommError = TypedError<ErrorClass::comm>;              // transport; the group is dead
using TowerError = TypedError<ErrorClass::tower>;  // carries a foreign exception of a tower, nested

// Throws the class that `kind` names.
[[noreturn]] void throw_error(ErrorClass kind, ErrorText text);

// Throws the same class again with rank, tower and update filled in; a foreign exception comes
// nested in a TowerError. Call inside a catch block's exception_ptr handling.
[[noreturn]] void rethrow_located(std::exception_ptr error, int rank, int tower,
                                  std::int64_t update);

}  // namespace belfry
