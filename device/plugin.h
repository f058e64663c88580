// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/device/platform.h"
#include "belfry/device/types.h"

namespace belfry {

// Raised whenever what is below or the layout of KernelCall changes.
inline constexpr unsigned kCudaAbi = 1;

struct CudaOptions {
  std::vector<int> gpus{};  // of each tower; empty: one a visible GPU
  Precision precision = Precision::f32;
};

// What libbelfry_cuda.so gives the process that loads it. Lives until the process ends.
class CudaModule {
 public:
  virtual ~CudaModule() = default;
  virtual int gpus() const = 0;                     // visible ones; throws DeviceError
  virtual std::string describe(int gpu) const = 0;  // "NVIDIA H200, 139.8 GiB, compute 9.0"
  virtual std::string libraries() const = 0;        // "CUDA 13.0, cuBLASLt 13.1.0, NCCL ..."
  // Throws DeviceError naming a GPU that is not there.
  virtual std::shared_ptr<Platform> platform(const CudaOptions& options) = 0;
  // Adds the kernels of a user's plug-in (docs/gpu.md). Throws DeviceError when it cannot be used.
  virtual void load_kernels(const std::string& path) = 0;
};

// The plug-in, loaded on the first call: from $BELFRY_CUDA_PLUGIN, the folder of this library, or
// the loader's path. Throws DeviceError saying which part is missing and what to do.
CudaModule& cuda_module();

// One line a part that GPUs need (driver, plug-in, devices): whether it is there, or why not.
std::vector<std::string> cuda_diagnosis();

}  // namespace belfry

// The plug-in's only symbol. Null, with a reason, when `abi` and `version` are not its own.
extern "C" belfry::CudaModule* belfry_cuda_entry(unsigned abi, const char* version,
                                                 const char** reason) noexcept;
