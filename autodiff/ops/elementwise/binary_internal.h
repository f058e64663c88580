// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"

namespace belfry {

enum class Binary : std::uint8_t { add, sub, mul };

// a op b: b has the shape of a, or is [n] with n the last extent of a, or is a scalar.
Tensor binary_op(const char* op, Binary kind, const Tensor& a, const Tensor& b);

// Registry entry from the formula in double.
OpEntry binary_entry(const char* help, const char* name, Tensor (*op)(const Tensor&, const Tensor&),
                     double (*formula)(double, double));

}  // namespace belfry
