// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/check.h"

#include "belfry/core/error.h"

namespace belfry {
namespace {

const char* fix_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "use a smaller batch, more accumulation or more GPUs";
    case cudaErrorInsufficientDriver:
      return "install a driver for this CUDA version (nvidia-smi shows the installed one)";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "`belfry devices` lists what is visible; CUDA_VISIBLE_DEVICES hides GPUs";
    case cudaErrorNoKernelImageForDevice:
      return "build with -DCMAKE_CUDA_ARCHITECTURES for this GPU";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "a kernel failed: the process cannot use this GPU again; run under compute-sanitizer";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
      return "a step is recorded: read tensors after it, or train without capture";
    default:
      return "";
  }
}

}  // namespace

void check_cuda(cudaError_t code, const char* call, int gpu) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // else the next launch would report it once more
  throw DeviceError(ErrorText{
      .what = std::string(call) + " failed on cuda:" + std::to_string(gpu),
      .found = std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) + ")",
      .fix = fix_of(code)});
}

CurrentDevice::CurrentDevice(int gpu) {
  int now = -1;
  BELFRY_CUDA(gpu, cudaGetDevice, &now);
  if (now == gpu) return;
  BELFRY_CUDA(gpu, cudaSetDevice, gpu);
  before_ = now;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

}  // namespace belfry
