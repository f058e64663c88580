// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>

#include "belfry/device/context.h"

namespace belfry {

// Bytes of a GPU: what nobody has taken, and all.
struct DeviceMemory {
  std::size_t free = 0, total = 0;
};

// A platform's extension "memory".
struct DeviceMemoryReader {
  DeviceMemory (*read)(int gpu);
};

// Of a tower's device, now. None where its memory is the host's, or its platform does not say.
// Throws DeviceError.
std::optional<DeviceMemory> device_memory(const Context& context, int tower);

}  // namespace belfry
