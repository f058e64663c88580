// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/cuda_device.h"

namespace belfry {
namespace {

// The arenas' memory: taken while a run warms up, given back at its end. The allocator may wait for
// whatever runs on any GPU, so the main stream, and what it waits for, comes to its end first.
MemorySource device_memory(CudaDevice* owner) {
  return {[](void* self, std::size_t bytes) -> void* {
            auto& device = *static_cast<CudaDevice*>(self);
            const int gpu = device.gpu();
            device.settle();
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
          [](void*, void* p) noexcept { cudaFree(p); }, owner,
          "on " + name_of(owner->id()) + ": cudaMalloc has no more"};
}

MemorySource pinned_memory(CudaDevice* owner) {
  return {[](void* self, std::size_t bytes) -> void* {
            auto& device = *static_cast<CudaDevice*>(self);
            const int gpu = device.gpu();
            device.settle();
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
          [](void*, void* p) noexcept { cudaFreeHost(p); }, owner,
          "for pinned memory of " + name_of(owner->id()) + ": cudaHostAlloc has no more"};
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

void CudaDevice::add(CudaStream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
}

void CudaDevice::remove(CudaStream& stream) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, &stream);
}

void CudaDevice::settle() {
  std::vector<CudaStream*> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  if (main_ && main_->capturing()) return;
  for (CudaStream* s : streams) s->synchronize();
}

void CudaDevice::synchronize() { main_->synchronize(); }

void CudaDevice::bind_thread() { BELFRY_CUDA(gpu_, cudaSetDevice, gpu_); }

}  // namespace belfry
