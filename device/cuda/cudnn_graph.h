// SPDX-License-Identifier: MIT
#pragma once
#include <cudnn.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

// cuDNN's graph API: descriptors that are filled, finalized and then read.
namespace belfry {

// cuDNN refused something; whoever knows what it was for makes a DeviceError of it.
struct CudnnRefusal {
  cudnnStatus_t status;
  std::string text;  // "CUDNN_STATUS_BAD_PARAM (its own words) in ..."
};
void check_cudnn(cudnnStatus_t status, const char* call);

class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  cudnnBackendDescriptor_t get() const noexcept { return descriptor_; }
  void finalize();

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& part);
  void set_numbers(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, float value) {
    set(name, CUDNN_TYPE_FLOAT, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, bool value) {
    set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }

  std::int64_t number(cudnnBackendAttributeName_t name) const;
  // Descriptors of `type` that this one refers to.
  std::vector<CudnnDescriptor> parts(cudnnBackendAttributeName_t name,
                                     cudnnBackendDescriptorType_t type) const;
  std::vector<cudnnBackendNumericalNote_t> numerical_notes() const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// Where plans are made for: a device with its handle, or the properties of one that need not be
// here.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  CudnnDescriptor properties;
};
// From cuDNN's own JSON text of a device.
CudnnTarget target_of_properties(const std::string& json);

}  // namespace belfry
