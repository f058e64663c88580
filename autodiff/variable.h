// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/autodiff/scope.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

class Module;

// How a variable starts: drawn from Philox keyed by (seed, the variable's name), element by
// element, so the value does not depend on construction order, towers or devices.
struct Init {
  enum class Kind : std::uint8_t { constant, uniform, normal } kind = Kind::constant;
  double a = 0;  // constant: the value; uniform: bound, in [-a, a); normal: standard deviation
  static Init zeros() { return {}; }
  static Init constant(double v) { return {Kind::constant, v}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  static Init normal(double stddev) { return {Kind::normal, stddev}; }
};

// A named trainable tensor of a module. Declares shape and start only; memory is bound by whoever
// owns the group (bind()). Pinned: neither copied nor moved. One thread at a time.
class Variable {
 public:
  Variable(Module& parent, const std::string& name, const Shape& shape, Init init);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  const std::string& name() const noexcept { return name_; }  // "hidden.weight": path and name
  const Shape& shape() const noexcept { return shape_; }
  const Init& init() const noexcept { return init_; }
  bool trainable() const noexcept { return trainable_; }
  void set_trainable(bool trainable) noexcept { trainable_ = trainable; }

  // The value as seen by ops: a leaf of the current tape when trainable. Throws GradientError
  // before bind().
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT: a variable is used as a tensor

  // Gives it memory; `sink` receives its gradient, and `before_use` is called whenever the value
  // is about to be read by an op.
  void bind(const Tensor& value, GradSink* sink, std::function<void()> before_use = {});
  const Tensor& value() const noexcept { return value_; }
  // Its value number on `tape`; -1 when the pass has not used it.
  int value_on(const Tape& tape) const noexcept {
    return leaf_serial_ == tape.serial() ? leaf_.value() : -1;
  }
  GradSink* sink() const noexcept { return sink_; }

 private:
  friend class Module;
  Module* parent_ = nullptr;  // null when it is gone
  std::string name_;
  Shape shape_;
  Init init_;
  Tensor value_;
  GradSink* sink_ = nullptr;
  std::function<void()> before_use_;
  bool trainable_ = true;
  mutable Tensor leaf_;  // value_ on leaf_serial_'s tape
  mutable std::uint64_t leaf_serial_ = 0;
};

// Writes the start value of `init` for a variable called `name` into `out` (host memory).
void initial_values(const std::string& name, const Init& init, std::uint64_t seed,
                    std::int64_t count, float* out);

}  // namespace belfry
