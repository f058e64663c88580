// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/activation.h"

namespace belfry {

// y = f(x) on the stream; y may be x. Activation::none does nothing when y is x.
void activate(Activation f, const Tensor& x, const Tensor& y);
// dx = g f'(saved) on the stream; dx may be g. `saved` is x where saves_input(f), else y.
void activate_backward(Activation f, const Tensor& g, const Tensor& saved, const Tensor& dx);
bool saves_input(Activation f) noexcept;
// Where saves_input(f): y = f(x) and, in x's place, f'(x), in one pass over both.
void activate_keeping_slope(Activation f, const Tensor& x, const Tensor& y);
// dx = g slope on the stream; dx may be g.
void scale_by_slope(const Tensor& g, const Tensor& slope, const Tensor& dx);

// The op of an activation: relu(x) and its like.
Tensor activation_op(Activation f, const Tensor& x);

// Registry entry of an activation from its formula in double.
OpEntry activation_entry(const char* help, Tensor (*op)(const Tensor&), double (*formula)(double));

}  // namespace belfry
