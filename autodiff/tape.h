// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "belfry/autodiff/backward.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

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
  // After backward: the gradient of a leaf, undefined when absent.
  Tensor grad(const Tensor& leaf) const;

  std::uint64_t serial() const noexcept { return serial_; }  // never the same for two tapes
  const std::vector<TapeNode>& nodes() const { return nodes_; }
  // op, device, gradient's device, bytes: one line a node; then the copies between each two
  // devices, how many and bytes. Complete after backward.
  std::vector<std::string> placement() const;
  // A copy that goes with this pass, recorded or not: for the report.
  void count_copy(DeviceId from, DeviceId to, std::size_t bytes, bool of_gradient);
  // The recorded op that took or gave some of these bytes, in a pass of this thread whose backward
  // is still to come and may need them; null when there is none.
  static const char* user_of(const void* data, std::size_t bytes);

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
  // Memory that a recorded op takes or gives.
  struct Used {
    std::uintptr_t lo, hi;
    const char* op;
  };
  struct Copies {
    DeviceId from, to;
    std::size_t forward = 0, forward_bytes = 0, backward = 0, backward_bytes = 0;
  };
  int number_of(const char* op, const Tensor& t) const;
  void note_used(const char* op, const Tensor& t);
  int add_value(const Tensor& t, int producer, GradSink* sink);
  bool record_values(const char* op, std::vector<int> inputs, Tensor& output, BackwardFn backward);
  Tensor destination(Value& v, bool* temporary);
  void deliver(Value& v, const Tensor& term, bool temporary);
  void add_term(Value& v, const Tensor& term);
  void check_term(const TapeNode& node, std::size_t input, const Tensor& term);
  void step_back(TapeNode& node);
  std::vector<TapeNode> nodes_;
  std::vector<Value> values_;
  std::vector<Used> used_;
  std::shared_ptr<Tape*> open_;  // how its thread finds it
  std::vector<Copies> copies_;
  std::uint64_t serial_;
  bool done_ = false;
};

}  // namespace belfry
