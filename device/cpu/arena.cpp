// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "belfry/core/error.h"
#include "belfry/device/cpu/arena_internal.h"

namespace belfry {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kLargest = std::size_t{1} << 47;  // x86-64's user address space

}  // namespace

std::size_t rounded(std::size_t bytes) {
  const std::size_t b = std::max<std::size_t>(bytes, kAlign);
  const std::size_t step = std::max(kAlign, std::bit_floor(b) / 8);
  return (b + step - 1) / step * step;
}

MemorySource host_heap() {
  return {[](void*, std::size_t bytes) { return std::aligned_alloc(kAlign, bytes); },
          [](void*, void* p) noexcept { std::free(p); }};
}

BlockArena::~BlockArena() {
  for (auto& [size, blocks] : free_)
    for (void* p : blocks) source_.give(source_.self, p);
}

void* BlockArena::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  void* p = nullptr;
  if (auto& list = free_[size]; !list.empty()) {
    p = list.back();
    list.pop_back();
  } else {
    const bool refused = bytes > kLargest || size > limit_ || stats_.reserved_bytes > limit_ - size;
    p = refused ? nullptr : source_.take(source_.self, size);
    if (p == nullptr)
      throw DeviceError(ErrorText{.what = "out of memory " + source_.place,
                                  .found = std::to_string(bytes) + " bytes wanted, " +
                                           std::to_string(stats_.reserved_bytes) + " held",
                                  .fix = "use a smaller batch, more accumulation or fewer towers"});
    stats_.reserved_bytes += size;
    ++stats_.system_requests;
  }
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return p;
}

void BlockArena::give_back(void* p, std::size_t bytes) noexcept {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  free_[size].push_back(p);
  stats_.live_bytes -= size;
}

void BlockArena::set_limit(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

ArenaStats BlockArena::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace belfry
