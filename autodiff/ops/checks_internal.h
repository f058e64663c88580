// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/autodiff/op.h"

namespace belfry {

// Throws GradientError unless `t`, called `name`, has the element type and device of `x`.
void require_like(const char* op, const Tensor& x, const Tensor& t, const char* name);
// Throws GradientError unless `t`, called `name`, has this shape.
void require_shape(const char* op, const Tensor& t, const Shape& shape, const char* name);
// Throws GradientError unless `t`, called `name`, is at least of rank `rank`.
void require_rank_at_least(const char* op, const Tensor& t, int rank, const char* name);
// Throws GradientError unless t is f32 or f64.
void require_float(const char* op, const Tensor& t);

// `out` = 0 on the stream.
inline void fill_zero(const Tensor& out) {
  if (out.size() != 0) stream_of(out).fill(out.raw(), 0, out.bytes());
}

// Memory for dy with a mask applied: grad() itself when nobody else can see it, else new.
inline Tensor masked_gradient_memory(const Tensor& grad) {
  return grad.unique() ? grad : Tensor::empty(grad.shape(), grad.dtype(), grad.device());
}

}  // namespace belfry
