// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/check.h"
#include "belfry/device/device_memory.h"

namespace belfry {
namespace {

DeviceMemory read(int gpu) {
  const CurrentDevice current(gpu);
  DeviceMemory memory;
  BELFRY_CUDA(gpu, cudaMemGetInfo, &memory.free, &memory.total);
  return memory;
}

}  // namespace

const void* extension_memory() {
  static constexpr DeviceMemoryReader kReader{read};
  return &kReader;
}

}  // namespace belfry
