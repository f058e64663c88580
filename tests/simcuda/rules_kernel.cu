// SPDX-License-Identifier: MIT
#include "belfry/tests/simcuda/rules_kernel.h"

namespace {

template <class F>
__global__ void elements(std::size_t n, F f) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    f(i);
}

}  // namespace

extern "C" {

const void* rules_axpy_address() {
  return reinterpret_cast<const void*>(&elements<belfry::sim::Axpy>);
}

void rules_axpy_chevrons(std::size_t n, belfry::sim::Axpy f, cudaStream_t stream) {
  elements<<<8, 256, 0, stream>>>(n, f);
}

cudaError_t rules_axpy_launch(std::size_t n, belfry::sim::Axpy f, cudaStream_t stream) {
  void* arguments[] = {&n, &f};
  return cudaLaunchKernel(rules_axpy_address(), dim3(8), dim3(256), arguments, 0, stream);
}
}
