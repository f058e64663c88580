// SPDX-License-Identifier: MIT
#include "belfry/autodiff/device_scope.h"

#include <algorithm>

#include "belfry/core/error.h"

namespace belfry {
namespace {

thread_local Device* scoped = nullptr;
thread_local const Device* tower_own = nullptr;
thread_local const std::vector<const Device*>* tower_all = nullptr;

}  // namespace

DeviceScope::DeviceScope(Device& device) noexcept : before_(scoped) { scoped = &device; }
DeviceScope::~DeviceScope() { scoped = before_; }

Device& device_in_scope() {
  if (scoped == nullptr)
    throw GradientError(ErrorText{.what = "a tensor without a device",
                                  .found = "no device_scope() on this thread",
                                  .fix = "name the device, or open a device_scope(device)"});
  return *scoped;
}

TowerPass::TowerPass(const Device& own, const std::vector<const Device*>& all) noexcept
    : own_before_(tower_own), all_before_(tower_all) {
  tower_own = &own;
  tower_all = &all;
}
TowerPass::~TowerPass() {
  tower_own = own_before_;
  tower_all = all_before_;
}

void require_not_of_other_tower(const Device& device) {
  if (tower_all == nullptr || &device == tower_own) return;
  if (std::find(tower_all->begin(), tower_all->end(), &device) == tower_all->end()) return;
  throw DeviceError(ErrorText{
      .what = "a tensor moves to or from the device of another tower in a pass of this one",
      .found = name_of(device.id()) + ", which works for its own tower at the same time",
      .expected = name_of(tower_own->id()) + ", or a device of no tower",
      .fix = "move it between updates, or give the model's parts devices of their own"});
}

void require_in_scope(const char* op, const Tensor& output) {
  if (scoped == nullptr || scoped == &output.device()) return;
  throw GradientError(ErrorText{.what = std::string(op) + ": device",
                                .found = name_of(output.device().id()),
                                .expected = name_of(scoped->id()) + ", of the device_scope()",
                                .fix = "move the inputs there with x.to(device)"});
}

}  // namespace belfry
