// SPDX-License-Identifier: MIT
// Kernels run the host body that the product binds right before it launches them.
#include <cstring>

#include "belfry/device/cpu/streams_internal.h"
#include "belfry/tests/simcuda/api.h"

using namespace belfry::sim;

namespace {

constexpr std::size_t kShared = 48 << 10, kSharedOptIn = 227 << 10;

struct alignas(64) Line {
  std::byte bytes[64];
};

// The functor as it was at the launch, which the caller's may outlive.
std::shared_ptr<const void> copied(const belfry::KernelCall& call) {
  auto lines = std::make_shared<std::vector<Line>>(call.functor_bytes / sizeof(Line) + 1);
  std::memcpy(lines->data(), call.functor, call.functor_bytes);
  return {lines, lines->data()};
}

std::string misconfigured(State& s, const void* kernel, dim3 grid, dim3 block, std::size_t shared) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) return "a block of impossible size";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535u ||
      grid.z > 65535u)
    return "a grid of impossible size";
  const auto allowed = s.shared_memory.find(kernel);
  if (shared >
      (allowed == s.shared_memory.end() ? kShared : static_cast<std::size_t>(allowed->second)))
    return "more shared memory than its attribute allows";
  return {};
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared,
                   cudaStream_t stream) {
  return api("cudaLaunchKernel", [&](State& s) -> cudaError_t {
    Local& mine = s.local();
    const void* const bound = std::exchange(mine.kernel, nullptr);
    if (bound != kernel)
      return s.refuse(cudaErrorInvalidDeviceFunction, "a kernel is launched without a host body");
    const belfry::KernelCall call = mine.call;
    CUstream_st* const st = s.usable(stream, call.name);
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    if (st->device != mine.device)
      return s.refuse(cudaErrorInvalidResourceHandle,
                      std::string(call.name) +
                          " is launched on a stream of another device than the current one");
    const std::string fault = misconfigured(s, kernel, grid, block, shared);
    if (!fault.empty())
      return s.refuse(cudaErrorInvalidConfiguration, std::string(call.name) + " has " + fault);
    Node node;
    node.what = std::string(call.name) + " on " + st->name;
    belfry::Touches touches;
    call.touches(call.functor, call.n, touches);
    node.touches = ranges_of(touches);
    // Indices are independent: any order will do.
    const std::size_t cut = call.n < 2 ? 0 : 1 + s.scheduler.random(call.n - 1);
    node.body = [functor = copied(call), host = call.host, n = call.n, cut] {
      host(functor.get(), cut, n);
      if (cut != 0) host(functor.get(), 0, cut);
    };
    ++s.counts.launches;
    return s.put(st, std::move(node));
  });
}

}  // namespace

void belfry_sim_bind_kernel(const void* kernel, const belfry::KernelCall& call) {
  if (SimCuda::active() == nullptr) return;
  Local& mine = SimCuda::active()->state().local();
  mine.kernel = kernel;
  mine.call = call;
}

extern "C" {

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void**, std::size_t shared,
                             cudaStream_t stream) {
  return launch(kernel, grid, block, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  return launch(kernel, config->gridDim, config->blockDim, config->dynamicSmemBytes,
                config->stream);
}

// ---- What <<<>>> becomes.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     CUstream_st* stream) {
  if (SimCuda::active() == nullptr) return 1;
  SimCuda::active()->state().local().pushed = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (SimCuda::active() == nullptr) return cudaErrorInitializationError;
  const auto& p = SimCuda::active()->state().local().pushed;
  *grid = p.grid;
  *block = p.block;
  *shared = p.shared;
  *static_cast<cudaStream_t*>(stream) = p.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* kernel) {
  *out = reinterpret_cast<cudaKernel_t>(const_cast<void*>(kernel));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                               std::size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, shared, stream);
}

// ---- Attributes of kernels.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value) {
  return api("cudaFuncSetAttribute", [&](State& s) -> cudaError_t {
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<std::size_t>(value) > kSharedOptIn) return cudaErrorInvalidValue;
    s.shared_memory[kernel] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* kernel) {
  return api("cudaFuncGetAttributes", [&](State& s) {
    *out = {};
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->binaryVersion = out->ptxVersion = 90;
    const auto set = s.shared_memory.find(kernel);
    out->maxDynamicSharedSizeBytes =
        set == s.shared_memory.end() ? static_cast<int>(kShared) : set->second;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t) {
  return api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&](State&) {
    if (threads <= 0 || threads > 1024) return cudaErrorInvalidValue;
    *blocks = std::min(32, 2048 / threads);
    return cudaSuccess;
  });
}

}  // extern "C"
