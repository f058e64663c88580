// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/core/error.h"
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/device/kept_arena.h"

namespace belfry {

// Device memory for what is put on a device's main stream while this lives. Given back at its end
// to be used again in the order of that stream; no other stream may use it.
class Scratch {
 public:
  Scratch(CudaDevice& device, cudaStream_t stream, std::size_t bytes)
      : kept_(arena_in_use(device)),
        arena_(kept_ ? *kept_ : device.arena(MemoryKind::device)),
        bytes_(bytes) {
    if (bytes == 0) return;
    if (stream != device.main().native())
      throw DeviceError("library calls with scratch memory run on a device's main stream only");
    data_ = arena_.take(bytes);
  }
  ~Scratch() {
    if (data_ != nullptr) arena_.give_back(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const noexcept { return data_; }  // null when empty

 private:
  std::shared_ptr<Arena> kept_;
  Arena& arena_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace belfry
