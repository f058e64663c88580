// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/device.h"

namespace belfry {

// While it lives, main() of `device` is `stream` on this thread: ops that know nothing of it go
// there. May be nested; the one before comes back at its end. Owns neither.
class UseStream {
 public:
  UseStream(const Device& device, Stream& stream) noexcept;
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  const Device* device_before_;
  Stream* stream_before_;
};

// Null where nothing is in use on this thread. Devices ask it in main().
Stream* stream_in_use(const Device& device) noexcept;

}  // namespace belfry
