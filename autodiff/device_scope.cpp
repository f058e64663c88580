// SPDX-License-Identifier: MIT
#include "belfry/autodiff/device_scope.h"

#include "belfry/core/error.h"

namespace belfry {
namespace {

thread_local Device* scoped = nullptr;

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

void require_in_scope(const char* op, const Tensor& output) {
  if (scoped == nullptr || scoped == &output.device()) return;
  throw GradientError(ErrorText{.what = std::string(op) + ": device",
                                .found = name_of(output.device().id()),
                                .expected = name_of(scoped->id()) + ", of the device_scope()",
                                .fix = "move the inputs there with x.to(device)"});
}

}  // namespace belfry
