// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "belfry/autodiff/tensor.h"

namespace belfry {

class Backward;
class Tape;
struct TapeNode;
using BackwardFn = std::function<void(Backward&)>;

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
