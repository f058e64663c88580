// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/cuda_device.h"

namespace belfry {
namespace {

// The arenas' memory: taken while a run warms up, given back at its end; cudaMalloc may
// synchronise every GPU of the process.
MemorySource device_memory(CudaDevice* device) {
  return {[](void* self, std::size_t bytes) -> void* {
            const int gpu = static_cast<CudaDevice*>(self)->gpu();
            const CurrentDevice current(gpu);
            void* p = nullptr;
            const cudaError_t code = cudaMalloc(&p, bytes);
            if (code == cudaErrorMemoryAllocation) {
              cudaGetLastError();
              return nullptr;
            }
            check_cuda(code, "cudaMalloc", gpu);
            return p;
          },
          [](void*, void* p) noexcept { cudaFree(p); }, device, "on the GPU"};
}

MemorySource pinned_memory(CudaDevice* device) {
  return {[](void* self, std::size_t bytes) -> void* {
            const int gpu = static_cast<CudaDevice*>(self)->gpu();
            const CurrentDevice current(gpu);
            void* p = nullptr;
            const cudaError_t code = cudaHostAlloc(&p, bytes, cudaHostAllocPortable);
            if (code == cudaErrorMemoryAllocation) {
              cudaGetLastError();
              return nullptr;
            }
            check_cuda(code, "cudaHostAlloc", gpu);
            return p;
          },
          [](void*, void* p) noexcept { cudaFreeHost(p); }, device, "for pinned host memory"};
}

}  // namespace

CudaDevice::CudaDevice(int gpu, Precision precision, const KernelTable& kernels)
    : gpu_(gpu),
      precision_(precision),
      kernels_(kernels),
      arena_(device_memory(this)),
      pinned_(pinned_memory(this)),
      main_(std::make_unique<CudaStream>(*this, gpu, 0)) {}

CudaDevice::~CudaDevice() = default;

std::unique_ptr<Stream> CudaDevice::stream(int priority) {
  return std::make_unique<CudaStream>(*this, gpu_, priority);
}

std::unique_ptr<Event> CudaDevice::event(bool external) {
  return std::make_unique<CudaEvent>(gpu_, external);
}

void CudaDevice::synchronize() { main_->synchronize(); }

void CudaDevice::bind_thread() { BELFRY_CUDA(gpu_, cudaSetDevice, gpu_); }

}  // namespace belfry
