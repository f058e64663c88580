// SPDX-License-Identifier: MIT
#pragma once
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "belfry/device/device.h"

namespace belfry {

// Where an arena's memory comes from: the host's heap, or a device's allocator.
struct MemorySource {
  void* (*take)(void* self, std::size_t bytes);  // null when there is none left
  void (*give)(void* self, void* p) noexcept;
  void* self = nullptr;
  std::string place = "on the host";  // of the error when there is none left
};
MemorySource host_heap();

// What a request takes: at most 1/8 more, so that the short last batch of an epoch finds the blocks
// of the full ones.
std::size_t rounded(std::size_t bytes);

// Free lists by rounded size. Gives everything back to its source at its end, nothing before.
class BlockArena : public Arena {
 public:
  explicit BlockArena(MemorySource source = host_heap()) : source_(std::move(source)) {}
  ~BlockArena() override;
  void* take(std::size_t bytes) override;
  void give_back(void* p, std::size_t bytes) noexcept override;
  ArenaStats stats() const override;
  void set_limit(std::size_t bytes) noexcept override;

 private:
  MemorySource source_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_;
  ArenaStats stats_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace belfry
