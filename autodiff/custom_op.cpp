// SPDX-License-Identifier: MIT
#include "belfry/autodiff/custom_op.h"

#include <utility>

#include "belfry/autodiff/op.h"

namespace belfry {

Tensor custom_op(const char* name, std::vector<Tensor> inputs, const CustomForward& forward,
                 CustomBackward backward) {
  std::vector<Tensor> plain;
  plain.reserve(inputs.size());
  for (const Tensor& t : inputs) plain.push_back(t.detach());
  Tensor output = forward(plain);
  if (!output.defined())
    throw_op(name, "forward returned nothing", "an undefined tensor", "a result");
  output = output.detach();
  if (Tape* tape = Scope::tape()) {
    // Copied before `output` gets its number: what backward sees is outside the tape.
    auto run = [plain = std::move(plain), result = output,
                backward = std::move(backward)](Backward& b) { backward(b, plain, result); };
    tape->record(name, inputs, output, std::move(run));
  }
  return output;
}

}  // namespace belfry
