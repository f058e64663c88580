// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/index/duplicates.h"

namespace belfry {

// Checks arguments; `in_place` also that no backward needs what is in the target.
void check_scatter(const char* op, const Tensor& target, const Tensor& indices,
                   const Tensor& values, bool in_place);
// Checks the indices' range, and with `reject` that none comes twice; then writes or adds.
void run_scatter(const char* op, const Tensor& target, const Tensor& indices, const Tensor& values,
                 Duplicates duplicates, bool add);
Tensor copy_of(const Tensor& x);

// The registry's cases and misuses of an op of (x, indices, values).
using ScatterOp = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Duplicates);
using ScatterInPlace = void (*)(const Tensor&, const Tensor&, const Tensor&, Duplicates);
OpEntry scatter_entry(const char* help, ScatterOp op, ScatterInPlace in_place, bool add);

}  // namespace belfry
