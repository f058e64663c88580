// SPDX-License-Identifier: MIT
#pragma once
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "belfry/device/device.h"

namespace belfry {

// Free lists by rounded size. Sizes are rounded so that at most 1/8 is wasted and the short last
// batch of an epoch finds the blocks of the full ones.
class CpuArena : public Arena {
 public:
  CpuArena() = default;
  ~CpuArena() override;
  void* take(std::size_t bytes) override;
  void give_back(void* p, std::size_t bytes) noexcept override;
  ArenaStats stats() const override;
  void set_limit(std::size_t bytes) noexcept override;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_;
  ArenaStats stats_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace belfry
