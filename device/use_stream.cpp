// SPDX-License-Identifier: MIT
#include "belfry/device/use_stream.h"

namespace belfry {
namespace {

thread_local const Device* used_device = nullptr;
thread_local Stream* used_stream = nullptr;

}  // namespace

UseStream::UseStream(const Device& device, Stream& stream) noexcept
    : device_before_(used_device), stream_before_(used_stream) {
  used_device = &device;
  used_stream = &stream;
}

UseStream::~UseStream() {
  used_device = device_before_;
  used_stream = stream_before_;
}

Stream* stream_in_use(const Device& device) noexcept {
  return used_device == &device ? used_stream : nullptr;
}

}  // namespace belfry
