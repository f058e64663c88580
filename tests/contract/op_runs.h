// SPDX-License-Identifier: MIT
// One case of an op on a device: what it gives and the gradients of it.
#pragma once
#include <vector>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/tests/catch.h"

namespace belfry::contract {

using Values = std::vector<double>;

inline std::vector<Values> values_of(const OpCase& c) {
  std::vector<Values> v;
  for (const SampleInput& in : c.inputs) v.push_back(in.values);
  return v;
}

inline Tensor input(const SampleInput& in, const Values& values, DType type, Device& device) {
  return Tensor::from(values, in.shape, in.differentiable ? type : in.fixed, device);
}

inline std::vector<Tensor> inputs(const OpCase& c, const std::vector<Values>& v, DType type,
                                  Device& device) {
  std::vector<Tensor> t;
  for (std::size_t i = 0; i < v.size(); ++i) t.push_back(input(c.inputs[i], v[i], type, device));
  return t;
}

struct Gradients {
  Values output;
  bool tracked = false;
  std::vector<Values> inputs;  // one a differentiable input, empty vectors for others
};

// Output and the gradients of a random projection of it.
inline Gradients differentiate(const OpCase& c, DType type, Device& device) {
  Tape tape;
  Scope scope({.tape = &tape});
  std::vector<Tensor> in = inputs(c, values_of(c), type, device);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (c.inputs[i].differentiable) in[i] = tape.leaf(in[i]);
  const Tensor out = c.run(in);
  Gradients g;
  g.tracked = out.tape() != nullptr;
  g.inputs.resize(in.size());
  if (g.tracked) {
    const Tensor direction =
        Tensor::from(sample_values(out.size(), 1.0, 99), out.shape(), type, device);
    tape.backward(sum(mul(out, direction)));
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!c.inputs[i].differentiable) continue;
      const Tensor grad = tape.grad(in[i]);
      REQUIRE(grad.defined());
      REQUIRE(grad.shape() == c.inputs[i].shape);
      g.inputs[i] = grad.to_vector();
    }
  }
  g.output = out.to_vector();
  return g;
}

}  // namespace belfry::contract
