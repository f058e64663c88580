// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/library_shapes.h"

namespace belfry {

// Convolutions of few channels by kernels of our own, where they beat oneDNN: less than 8 channels
// in or 16 out, stride 1, 16 images or more. Each returns false, having done nothing, for other
// shapes and on the baseline instruction set. They run in the calling thread and its OpenMP team;
// bits do not depend on the threads.
bool lane_conv_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                       float* y);
bool lane_conv_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx);
bool lane_conv_backward_weights(const ConvShape& s, const float* x, const float* dy,
                                float* dweight);

}  // namespace belfry
