// SPDX-License-Identifier: MIT
#include "belfry/autodiff/custom_op.h"

#include <utility>

#include "belfry/autodiff/op.h"

namespace belfry {

Tensor custom_op(const char* name, std::vector<Tensor> inputs, const CustomForward& forward,
                 CustomBackward backward) {
  if (!forward) throw_op(name, "forward of custom_op()", "an empty function", "one");
  std::vector<Tensor> plain;
  plain.reserve(inputs.size());
  for (const Tensor& t : inputs) plain.push_back(t.detach());
  Tensor output = forward(plain);
  if (!output.defined())
    throw_op(name, "forward returned nothing", "an undefined tensor", "a result");
  output = output.detach();
  if (Tape* tape = Scope::tape()) {
    // Copied before `output` gets its number: what backward sees is outside the tape.
    auto run = [name, plain = std::move(plain), result = output,
                backward = std::move(backward)](Backward& b) {
      if (!backward)
        throw_op(name, "backward of custom_op()", "an empty function, and a loss that needs it",
                 "one, or inputs that are detached");
      backward(b, plain, result);
    };
    tape->record(name, inputs, output, std::move(run));
  }
  return output;
}

}  // namespace belfry
