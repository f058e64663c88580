// SPDX-License-Identifier: MIT
// A kernel as the product has them: one functor for the host and for nvcc.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/types.h"

namespace belfry::sim {

// y[i] = a * x[i] + y[i]
struct Axpy {
  static constexpr const char* name = "axpy";
  float a;
  const float* x;
  float* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = a * x[i] + y[i]; }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * sizeof(float)).reads(y, n * sizeof(float)).writes(y, n * sizeof(float));
  }
};

}  // namespace belfry::sim

// Compiled by nvcc where there is one: as <<<>>> and as cudaLaunchKernel.
extern "C" {
const void* rules_axpy_address() __attribute__((weak));
void rules_axpy_chevrons(std::size_t n, belfry::sim::Axpy f, cudaStream_t stream)
    __attribute__((weak));
cudaError_t rules_axpy_launch(std::size_t n, belfry::sim::Axpy f, cudaStream_t stream)
    __attribute__((weak));
}
