// SPDX-License-Identifier: MIT
// Prints cuDNN's own JSON text of GPU 0: what tests/cudnn plans for on machines without one.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdio>
#include <string>

namespace {

bool good(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  char why[512] = "";
  cudnnGetLastErrorString(why, sizeof why);
  std::fprintf(stderr, "%s: %s %s\n", call, cudnnGetErrorString(status), why);
  return false;
}

std::string text_of(cudnnBackendDescriptor_t device) {
  std::int64_t size = 0;
  const auto get = [&](std::int64_t count, char* to) {
    return good(cudnnBackendGetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, count, &size, to),
                "cudnnBackendGetAttribute");
  };
  if (!get(0, nullptr) || size <= 0) return {};
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!get(size, text.data())) return {};
  return text.c_str();  // the size counts a closing 0
}

}  // namespace

int main() {
  if (const cudaError_t code = cudaSetDevice(0); code != cudaSuccess) {
    std::fprintf(stderr, "cudaSetDevice: %s\n", cudaGetErrorString(code));
    return 1;
  }
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
  if (!good(cudnnCreate(&handle), "cudnnCreate") ||
      !good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device),
            "cudnnBackendCreateDescriptor") ||
      !good(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                     &handle),
            "cudnnBackendSetAttribute") ||
      !good(cudnnBackendFinalize(device), "cudnnBackendFinalize"))
    return 1;
  const std::string text = text_of(device);
  std::printf("%s\n", text.c_str());
  cudnnBackendDestroyDescriptor(device);
  cudnnDestroy(handle);
  return text.empty() ? 1 : 0;
}
