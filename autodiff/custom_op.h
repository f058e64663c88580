// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "belfry/autodiff/tape.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

using CustomForward = std::function<Tensor(std::span<const Tensor>)>;
using CustomBackward = std::function<void(Backward&, std::span<const Tensor>, const Tensor&)>;

// An op of the user's. `forward` gets the inputs without gradients, so that ops inside it record
// nothing, and returns a new tensor; `backward` gets the gradient, the same inputs and the output,
// and must give every wanted input its gradient: into(), into_in_place() or give(). Both run on the
// caller's thread; what they put on streams is asynchronous. An empty `backward` is a GradientError
// when a loss needs it. `name` must outlive the tape.
Tensor custom_op(const char* name, std::vector<Tensor> inputs, const CustomForward& forward,
                 CustomBackward backward);

}  // namespace belfry
