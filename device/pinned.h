// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <utility>

#include "belfry/device/device.h"

namespace belfry {

// A block of a device's pinned arena: host memory that copies to and from the device need not
// stage. Whoever owns it waits for the copies that use it before it goes.
class Pinned {
 public:
  Pinned() = default;
  Pinned(Device& device, std::size_t bytes)
      : arena_(&device.arena(MemoryKind::pinned)), data_(arena_->take(bytes)), bytes_(bytes) {}
  ~Pinned() {
    if (arena_ != nullptr) arena_->give_back(data_, bytes_);
  }
  Pinned(Pinned&& other) noexcept { swap(other); }
  Pinned& operator=(Pinned&& other) noexcept {
    swap(other);
    return *this;
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  template <class T>
  T* at(std::size_t offset = 0) const noexcept {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void swap(Pinned& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Arena* arena_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace belfry
