// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "belfry/device/library_shapes.h"
#include "belfry/device/types.h"

// Convolutions as plans, without cuDNN's types: what tests without a GPU put in cuDNN's place.
namespace belfry {

class CudaDevice;

enum class ConvPass : std::uint8_t { forward, backward_data, backward_weights };

// What a plan is made for. `aligned`: all its arrays begin at multiples of 16 bytes.
struct ConvProblem {
  ConvPass pass = ConvPass::forward;
  ConvShape shape;
  Precision precision = Precision::f32;
  bool aligned = true;
};
// "conv_forward of [2, 28, 28, 1] and [6, 5, 5, 1] giving [2, 28, 28, 6], stride 1, padding 2, in
// tf32"
std::string text(const ConvProblem& problem);

// The arrays of a pass: two are read, the third is written. They are bf16 where the precision is,
// the bias always f32.
struct ConvPointers {
  void *x, *weight, *y;
  const float* bias;
  void* workspace;
};

struct ConvPlan {
  ConvProblem problem;
  bool adds_bias = false;  // the library does it
  std::size_t workspace = 0;
  std::shared_ptr<void> own;  // the library's
};

// Deterministic, of at most `budget` bytes of workspace. Throws DeviceError naming the problem
// when there is none.
ConvPlan plan_convolution(CudaDevice& device, const ConvProblem& problem, std::size_t budget);
// Puts it on the stream; throws DeviceError.
void execute(CudaDevice& device, cudaStream_t stream, const ConvPlan& plan,
             const ConvPointers& pointers);

}  // namespace belfry
