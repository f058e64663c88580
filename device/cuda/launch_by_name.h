// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/device/kernel.h"

// Kernels from within a library call, which has no Stream but CUDA's own.
namespace belfry {

inline void launch_by_name(CudaDevice& device, cudaStream_t stream, const KernelCall& call) {
  if (call.n != 0)
    check_cuda(device.kernels().find(call)(device, stream, call), call.name, device.gpu());
}

template <class F>
void launch_elements(CudaDevice& device, cudaStream_t stream, std::size_t n, const F& f) {
  launch_by_name(device, stream,
                 {F::name, &f, sizeof f, n, false, host_elements<F>, functor_touches<F>});
}

template <class F>
void launch_rows(CudaDevice& device, cudaStream_t stream, std::size_t rows, const F& f) {
  launch_by_name(device, stream,
                 {F::name, &f, sizeof f, rows, true, host_rows<F>, functor_touches<F>});
}

}  // namespace belfry
