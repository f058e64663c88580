// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/tensor.h"

namespace belfry {

// While it lives, work of this thread belongs on one device: tensors made without a device lie
// there, and an op recorded on a tape that runs elsewhere is a GradientError: what it uses has to
// come by x.to(device). May be nested; the innermost counts. Backward runs where forward ran,
// whatever the scope.
class DeviceScope {
 public:
  explicit DeviceScope(Device& device) noexcept;
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device* before_;
};

// const auto scope = device_scope(context.device(1));
[[nodiscard]] inline DeviceScope device_scope(Device& device) { return DeviceScope(device); }

// Throws GradientError when there is a scope, and `output` of `op` lies on another device.
void require_in_scope(const char* op, const Tensor& output);

}  // namespace belfry
