// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

namespace belfry {

// Throws DeviceError naming the call, CUDA's own text and the device; `fix` says what to do about
// the codes that users meet.
void check_cuda(cudaError_t code, const char* call, int gpu);

// Makes `gpu` the calling thread's current device as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int gpu);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

}  // namespace belfry

#define BELFRY_CUDA(gpu, call, ...) ::belfry::check_cuda(call(__VA_ARGS__), #call, gpu)
