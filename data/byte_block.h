// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "belfry/core/host_buffer.h"

namespace belfry {

// Bytes in memory that stay where they were read to: parts of them are kept without being moved.
// A value; copies share the memory, which nobody writes any more.
class ByteBlock {
 public:
  ByteBlock() = default;
  explicit ByteBlock(std::vector<std::uint8_t> bytes);
  // `count` bytes of `memory` from `first` on.
  ByteBlock(std::shared_ptr<const HostBuffer> memory, std::size_t first, std::size_t count);

  const std::uint8_t* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  const std::uint8_t& operator[](std::size_t i) const noexcept { return data_[i]; }
  // Keeps `count` bytes from `first` on, which lie inside. Where most of the memory is not kept, it
  // is given back and the rest is moved.
  void cut(std::size_t first, std::size_t count);

 private:
  std::shared_ptr<const void> owner_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace belfry
