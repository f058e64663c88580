// SPDX-License-Identifier: MIT
#include <cublasLt.h>

#include "belfry/device/cuda/extension.h"
#ifdef BELFRY_NCCL
#include <nccl.h>
#endif
#ifdef BELFRY_CUDNN
#include <cudnn_version.h>
#endif

namespace belfry {
namespace {

std::string version(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

std::string library_versions() {
  std::string out = ", cuBLASLt " + version(CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
#ifdef BELFRY_NCCL
  out += ", NCCL " + version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
#else
  out += ", without NCCL";
#endif
#ifdef BELFRY_CUDNN
  out += ", cuDNN " + version(CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
#else
  out += ", without cuDNN";
#endif
  return out;
}

}  // namespace belfry
