// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "belfry/autodiff/tensor.h"

namespace belfry {

// The values as plain bytes in the device's memory. `host` must live until the main stream has
// copied it.
template <class T>
Tensor device_table(const std::vector<T>& host, Device& device) {
  Tensor out =
      Tensor::empty(Shape{static_cast<std::int64_t>(host.size() * sizeof(T))}, DType::u8, device);
  device.main().copy(out.raw(), host.data(), out.bytes());
  return out;
}

}  // namespace belfry
