// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "belfry/device/communicator.h"
#include "belfry/device/device.h"

namespace belfry {

// What a context is made of: the default is CPU devices on threads of this process; the CUDA
// plug-in or a simulator takes its place. Lives as long as everything made by it.
class Platform {
 public:
  virtual ~Platform() = default;
  virtual std::unique_ptr<Host> host() = 0;
  // The device of tower `index`.
  virtual std::unique_ptr<Device> device(int index, int threads) = 0;
  // What layers above brought along with it, by name: null when it has none of that.
  virtual const void* extension(std::string_view /*name*/) const { return nullptr; }
};

}  // namespace belfry
