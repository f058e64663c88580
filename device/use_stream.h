// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/device.h"

namespace belfry {

// While it lives, main() of `device` is `stream` on this thread: ops that know nothing of it go
// there. With `only`, main() of any other device is a DeviceError: what is put there would run at
// once. May be nested; the one before comes back at its end. Owns neither.
class UseStream {
 public:
  UseStream(const Device& device, Stream& stream, bool only = false) noexcept;
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  const Device* device_before_;
  Stream* stream_before_;
  bool only_before_;
};

// Null where nothing is in use on this thread. Devices ask it in main().
Stream* stream_in_use(const Device& device);

}  // namespace belfry
