// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "belfry/device/stream.h"

namespace belfry {

class CudaDevice;
class CudaStream;

// The kernels that this process has for CUDA, by name. Filled when a plug-in is loaded, read by
// every stream; each name once.
class KernelTable {
 public:
  // Puts the call on the stream; what CUDA answers.
  using Launch = cudaError_t (*)(CudaDevice& device, cudaStream_t stream, const KernelCall& call);
  virtual ~KernelTable() = default;
  // Throws DeviceError when the name is taken.
  virtual void add(const char* name, std::size_t functor_bytes, Launch launch) = 0;
  // Throws DeviceError when there is no such kernel, or it takes another functor.
  virtual Launch find(const KernelCall& call) const = 0;

  // Kernels from functors; defined in launch.cuh, for nvcc.
  template <class F>
  void elements();
  template <class F>
  void rows();

  // A library call instead of a kernel: `run` puts what the functor
  // describes on the stream, or throws.
  template <class F, void (*run)(CudaDevice&, cudaStream_t, const F&)>
  void library() {
    add(F::name, sizeof(F), [](CudaDevice& device, cudaStream_t stream, const KernelCall& call) {
      run(device, stream, *static_cast<const F*>(call.functor));
      return cudaSuccess;
    });
  }
};

}  // namespace belfry
