// SPDX-License-Identifier: MIT
#include "belfry/device/kept_arena.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "belfry/device/cpu/arena_internal.h"

namespace belfry {
namespace {

class KeptArena : public Arena {
 public:
  explicit KeptArena(Arena& from) : from_(from) {}
  ~KeptArena() override {
    for (const auto& [size, blocks] : free_)
      for (void* p : blocks) from_.give_back(p, size);
  }

  // By rounded size only: then a pass that is repeated never needs more than the first time.
  void* take(std::size_t bytes) override {
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    void* p = nullptr;
    if (auto& blocks = free_[size]; !blocks.empty()) {
      p = blocks.back();
      blocks.pop_back();
    } else {
      p = from_.take(size);
      stats_.reserved_bytes += size;
      ++stats_.system_requests;
    }
    stats_.live_bytes += size;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    return p;
  }

  void give_back(void* p, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    free_[rounded(bytes)].push_back(p);
    stats_.live_bytes -= rounded(bytes);
  }

  ArenaStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  Arena& from_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_;
  ArenaStats stats_;
};

struct InUse {
  const Device* device = nullptr;
  std::shared_ptr<Arena> arena;
};
thread_local InUse in_use;

}  // namespace

std::shared_ptr<Arena> make_kept_arena(Arena& from) { return std::make_shared<KeptArena>(from); }

UseArena::UseArena(const Device& device, std::shared_ptr<Arena> arena)
    : device_before_(in_use.device), before_(std::move(in_use.arena)) {
  in_use = {&device, std::move(arena)};
}
UseArena::~UseArena() { in_use = {device_before_, std::move(before_)}; }

std::shared_ptr<Arena> arena_in_use(const Device& device) {
  return in_use.device == &device ? in_use.arena : nullptr;
}

}  // namespace belfry
