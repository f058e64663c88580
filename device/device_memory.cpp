// SPDX-License-Identifier: MIT
#include "belfry/device/device_memory.h"

namespace belfry {

std::optional<DeviceMemory> device_memory(const Context& context, int tower) {
  const Device& device = context.device(tower);
  if (device.host_memory() || context.platform() == nullptr) return std::nullopt;
  const void* const reader = context.platform()->extension("memory");
  if (reader == nullptr) return std::nullopt;
  return static_cast<const DeviceMemoryReader*>(reader)->read(device.id().index);
}

}  // namespace belfry
