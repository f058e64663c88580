// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "belfry/autodiff/label_fault.h"
#include "belfry/autodiff/pass_numbers.h"
#include "belfry/autodiff/tape.h"
#include "belfry/core/philox.h"

namespace belfry {

// What ops need to know and do not get as arguments: the pass that runs on this thread. One a
// thread at a time; the constructor installs it, the destructor restores the one before.
class Scope {
 public:
  struct Options {
    Tape* tape = nullptr;   // null: nothing is recorded (evaluation)
    bool training = false;  // dropout and the like act
    std::uint64_t seed = 0;
    std::int64_t update = 0;     // counted from 1 while training
    std::int64_t first_row = 0;  // global row of row 0
    std::int64_t rows = -1;  // rows of this pass; -1: unknown, drawing ops then use their input's
    // Of a pass that is recorded: ops that draw add them, on the device, to update and first_row.
    const PassNumbers* numbers = nullptr;
    LabelFault* label_fault = nullptr;  // of the device, where the host cannot read labels
  };
  explicit Scope(const Options& options);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  static Scope* current() noexcept;
  static Tape* tape() noexcept;  // null without a scope
  const Options& options() const noexcept { return options_; }
  // How often `path` has drawn in this pass, counting from 0; part of the random key.
  std::uint32_t next_draw(std::uint64_t path);

 private:
  Options options_;
  Scope* previous_;
  std::unordered_map<std::uint64_t, std::uint32_t> draws_;
};

// Records an op on the current tape, if any. Ops end with this.
template <class... T>
Tensor recorded(const char* op, Tensor output, BackwardFn backward, const T&... inputs) {
  if (Tape* tape = Scope::tape()) tape->record(op, {&inputs...}, output, std::move(backward));
  return output;
}

}  // namespace belfry
