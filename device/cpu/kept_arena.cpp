// SPDX-License-Identifier: MIT
#include "belfry/device/kept_arena.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace belfry {
namespace {

class KeptArena : public Arena {
 public:
  explicit KeptArena(Arena& from) : from_(from) {}
  ~KeptArena() override {
    for (const auto& [size, p] : free_) from_.give_back(p, size);
  }

  // The smallest free block of which at most a fifth is wasted: a pass with fewer rows finds those
  // of the full ones, and a repeated pass its own.
  void* take(std::size_t bytes) override {
    const std::size_t wanted = std::max<std::size_t>(bytes, 64);
    const std::lock_guard lock(mutex_);
    const auto found = free_.lower_bound(wanted);
    void* p = nullptr;
    if (found != free_.end() && found->first <= wanted + wanted / 4) {
      p = found->second;
      free_.erase(found);
    } else {
      p = from_.take(wanted);
      sizes_[p] = wanted;
      stats_.reserved_bytes += wanted;
      ++stats_.system_requests;
    }
    stats_.live_bytes += sizes_[p];
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    return p;
  }

  void give_back(void* p, std::size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    const std::size_t size = sizes_.find(p)->second;
    free_.emplace(size, p);
    stats_.live_bytes -= size;
  }

  ArenaStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  Arena& from_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;  // of all blocks
  std::multimap<std::size_t, void*> free_;
  ArenaStats stats_;
};

struct InUse {
  const Device* device = nullptr;
  std::shared_ptr<Arena> arena;
};
thread_local InUse in_use;

}  // namespace

std::shared_ptr<Arena> make_kept_arena(Arena& from) { return std::make_shared<KeptArena>(from); }

UseArena::UseArena(const Device& device, std::shared_ptr<Arena> arena) {
  in_use = {&device, std::move(arena)};
}
UseArena::~UseArena() { in_use = {}; }

std::shared_ptr<Arena> arena_in_use(const Device& device) {
  return in_use.device == &device ? in_use.arena : nullptr;
}

}  // namespace belfry
