// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

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

// While it lives, this thread runs the pass of one of several towers, whose devices work at the
// same time, each for a thread of its own: tensors do not move between `own` and another one of
// `all`.
class TowerPass {
 public:
  TowerPass(const Device& own, const std::vector<const Device*>& all) noexcept;
  ~TowerPass();
  TowerPass(const TowerPass&) = delete;
  TowerPass& operator=(const TowerPass&) = delete;

 private:
  const Device* own_before_;
  const std::vector<const Device*>* all_before_;
};

// Throws DeviceError for a device of another tower in a TowerPass.
void require_not_of_other_tower(const Device& device);

// Throws GradientError when there is a scope, and `output` of `op` lies on another device.
void require_in_scope(const char* op, const Tensor& output);

}  // namespace belfry
