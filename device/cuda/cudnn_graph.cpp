// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/cudnn_graph.h"

namespace belfry {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char why[512] = "";
  cudnnGetLastErrorString(why, sizeof why);
  std::string text = cudnnGetErrorString(status);
  if (why[0] != 0) text += std::string(" (") + why + ")";
  throw CudnnRefusal{status, text + " in " + call};
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

void CudnnDescriptor::finalize() {
  check_cudnn(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values),
              "cudnnBackendSetAttribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& part) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.descriptor_);
}

void CudnnDescriptor::set_numbers(cudnnBackendAttributeName_t name,
                                  const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

std::int64_t CudnnDescriptor::number(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  check_cudnn(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value),
              "cudnnBackendGetAttribute");
  return value;
}

std::vector<CudnnDescriptor> CudnnDescriptor::parts(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                                       nullptr),
              "cudnnBackendGetAttribute");
  std::vector<CudnnDescriptor> parts;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    parts.emplace_back(type);
    raw.push_back(parts.back().get());
  }
  if (count == 0) return parts;
  check_cudnn(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                       &count, raw.data()),
              "cudnnBackendGetAttribute");
  parts.resize(static_cast<std::size_t>(count));
  return parts;
}

std::vector<cudnnBackendNumericalNote_t> CudnnDescriptor::numerical_notes() const {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(
                  descriptor_, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                  static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute");
  notes.resize(static_cast<std::size_t>(count));
  return notes;
}

CudnnTarget target_of_properties(const std::string& json) {
  CudnnTarget target{nullptr, CudnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)};
  target.properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        static_cast<std::int64_t>(json.size()) + 1, json.c_str());
  target.properties.finalize();
  return target;
}

}  // namespace belfry
