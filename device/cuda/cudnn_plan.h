// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/cuda/conv_plan.h"
#include "belfry/device/cuda/cudnn_graph.h"

namespace belfry {

// The arrays' names in cuDNN's graphs.
inline constexpr std::int64_t kCudnnX = 'x', kCudnnWeight = 'w', kCudnnY = 'y', kCudnnBias = 'b';

// plan_convolution for a target; `own` is a CudnnDescriptor, the execution plan.
ConvPlan plan_convolution(const CudnnTarget& target, const ConvProblem& problem,
                          std::size_t budget);

}  // namespace belfry
