// SPDX-License-Identifier: MIT
#include "belfry/device/use_stream.h"

#include "belfry/core/error.h"

namespace belfry {
namespace {

thread_local const Device* used_device = nullptr;
thread_local Stream* used_stream = nullptr;
thread_local bool used_only = false;

}  // namespace

UseStream::UseStream(const Device& device, Stream& stream, bool only) noexcept
    : device_before_(used_device), stream_before_(used_stream), only_before_(used_only) {
  used_device = &device;
  used_stream = &stream;
  used_only = only;
}

UseStream::~UseStream() {
  used_device = device_before_;
  used_stream = stream_before_;
  used_only = only_before_;
}

Stream* stream_in_use(const Device& device) {
  if (used_device == &device) return used_stream;
  if (used_only)
    throw DeviceError(ErrorText{.what = "a loop of " + name_of(used_device->id()) +
                                        " works on another device in an iteration",
                                .found = name_of(device.id()),
                                .expected = "tensors of the loop's device alone",
                                .fix = "copy what it needs before the loop"});
  return nullptr;
}

}  // namespace belfry
