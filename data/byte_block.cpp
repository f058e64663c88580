// SPDX-License-Identifier: MIT
#include "belfry/data/byte_block.h"

namespace belfry {

ByteBlock::ByteBlock(std::vector<std::uint8_t> bytes) {
  const auto owner = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
  data_ = owner->data();
  size_ = owner->size();
  owner_ = owner;
}

ByteBlock::ByteBlock(std::shared_ptr<const HostBuffer> memory, std::size_t first, std::size_t count)
    : data_(reinterpret_cast<const std::uint8_t*>(memory->data()) + first), size_(count) {
  owner_ = std::move(memory);
}

void ByteBlock::cut(std::size_t first, std::size_t count) {
  const bool little = count < size_ / 2;
  data_ += first;
  size_ = count;
  if (little) *this = ByteBlock(std::vector<std::uint8_t>(data_, data_ + size_));
}

}  // namespace belfry
