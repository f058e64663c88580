// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"

namespace belfry {

// A part of a tensor along one axis, seen as [outer, width]: element (o, w) of the part lies at
// o * stride + w from `first`.
struct AxisBlock {
  std::int64_t outer, width, stride, first;
};

// Elements [first, first + count) of `axis` (0 or above) of a tensor of this shape.
AxisBlock axis_block(const Shape& shape, int axis, std::int64_t first, std::int64_t count);

// `whole` of shape `block` belongs to gets or gives the part that is contiguous in `part`.
void copy_out(const Tensor& whole, const AxisBlock& block, const Tensor& part);
void copy_in(const Tensor& part, const AxisBlock& block, const Tensor& whole);

// The axis from 0; negative ones count from the end. Throws GradientError outside the rank.
int resolved_axis(const char* op, const Shape& shape, int axis);

}  // namespace belfry
