// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "belfry/autodiff/tensor.h"

namespace belfry {

class Backward;
using BackwardFn = std::function<void(Backward&)>;

// Where a leaf's gradient goes. The first term is written in place, later ones are added, so a
// gradient that accumulates over micro-batches keeps `written` between tapes.
struct GradSink {
  void* data = nullptr;  // memory of the leaf's shape and type; null: the tape allocates
  bool written = false;
  std::function<void()> complete;  // called once, when no more terms can come
};

// One recorded operation, kept for backward and for the placement report.
struct TapeNode {
  const char* op;
  std::vector<int> inputs;  // value numbers of the inputs it will differentiate; -1 for others
  int output;
  BackwardFn backward;
  DeviceId device;
};

// Records operations as they run and walks them once, backwards. Lives for one forward and
// backward pass; one thread. Terms of a value are added in tape order (last use first).
class Tape {
 public:
  Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Makes `t` a differentiable leaf. The sink must outlive backward().
  Tensor leaf(const Tensor& t, GradSink* sink = nullptr);
  // Called by ops: output = op(inputs). Inputs without a value on this tape are not differentiated;
  // with none, nothing is recorded and `output` stays untracked.
  void record(const char* op, std::initializer_list<const Tensor*> inputs, Tensor& output,
              BackwardFn backward);
  void record(const char* op, const std::vector<Tensor>& inputs, Tensor& output,
              BackwardFn backward);

  // Which values the loss depends on: index by value number. No device work.
  std::vector<bool> reachable(const Tensor& loss) const;
  // Seeds the gradient of `loss` (a scalar) with `seed` (same type, on the device; undefined: 1)
  // and walks back. Throws GradientError when an op returns less than it declared, or a gradient
  // with another shape, type or device than its input (op and both named).
  void backward(const Tensor& loss, const Tensor& seed = {});
  // After backward: the gradient of a leaf without a sink, undefined when absent.
  Tensor grad(const Tensor& leaf) const;

  std::uint64_t serial() const noexcept { return serial_; }  // never the same for two tapes
  const std::vector<TapeNode>& nodes() const { return nodes_; }
  // op, device, gradient's device, bytes: one line a node; complete after backward.
  std::vector<std::string> placement() const;

 private:
  friend class Backward;
  struct Value {
    Shape shape;
    DType type = DType::f32;
    Device* device = nullptr;
    int producer = -1;  // node number, -1 for a leaf
    GradSink* sink = nullptr;
    Tensor grad;
    int pending = 0;  // reachable uses still to come in backward
    bool wanted = false;
    bool claimed = false;  // somebody writes the first term
    DeviceId grad_device{};
  };
  int number_of(const char* op, const Tensor& t) const;
  int add_value(const Tensor& t, int producer, GradSink* sink);
  void record_values(const char* op, std::vector<int> inputs, Tensor& output, BackwardFn backward);
  Tensor destination(Value& v, bool* temporary);
  void deliver(Value& v, const Tensor& term, bool temporary);
  void add_term(Value& v, const Tensor& term);
  void check_term(const TapeNode& node, std::size_t input, const Tensor& term);
  void step_back(TapeNode& node);
  std::vector<TapeNode> nodes_;
  std::vector<Value> values_;
  std::uint64_t serial_;
  bool done_ = false;
};

// What an op's backward sees: the gradient of its output, and where to put those of its inputs.
class Backward {
 public:
  const Tensor& grad() const { return grad_; }
  bool wants(int input) const;  // this input will be differentiated
  // Memory to overwrite with the gradient of input i; each wanted input exactly once.
  Tensor into(int input);
  // As into(), but may be the memory of grad() itself: for element-wise ops that read each element
  // of grad() before they write it, and do not use grad() afterwards.
  Tensor into_in_place(int input);
  // Hands over a ready gradient, e.g. a view of grad().
  void give(int input, Tensor gradient);

 private:
  friend class Tape;
  Backward(Tape& tape, const TapeNode& node, Tensor grad);
  Tape& tape_;
  const TapeNode& node_;
  Tensor grad_;
  struct Slot {
    Tensor tensor;
    bool temporary = false;  // to be added to what is there
    bool handed = false;     // from give(): not written in its destination yet
  };
  Slot& slot(int input);
  std::vector<Slot> slots_;
};

}  // namespace belfry
