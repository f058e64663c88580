// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// How many rows of logits [..., classes] have their largest value (the first of equals) at the
// label, of how many labels that are not `ignore`. A row with NaN is wrong. Not differentiable.
Metric correct(const Tensor& logits, const Tensor& labels, std::optional<std::int32_t> ignore = {});

}  // namespace belfry
