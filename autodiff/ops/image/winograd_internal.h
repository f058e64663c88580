// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/library_shapes.h"

namespace belfry {

// Convolutions of 3 x 3 taps with stride 1 whose channels are multiples of 16, by Winograd's
// algorithm, which oneDNN lacks. Each returns false, having done nothing, for other shapes, for
// results so small that tiles would be mostly empty, and on the baseline instruction set. They run
// in the calling thread and its OpenMP team; bits do not depend on the threads.
bool winograd_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                      float* y);
bool winograd_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx);
bool winograd_backward_weights(const ConvShape& s, const float* x, const float* dy, float* dweight);

}  // namespace belfry
