// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "belfry/tests/sim/shadow.h"

namespace belfry::sim {

// Who touches memory: it decides what may be touched.
enum class Toucher : std::uint8_t { kernel, copy, host_func };

struct Block {
  std::uintptr_t lo;
  std::size_t bytes;
  int device;  // kPinned: host memory
  bool freed;
  bool contains(const Range& r) const { return r.lo >= lo && r.hi <= lo + bytes; }
};

// The memory of all devices and pinned host memory, each in a region of its own. Memory of devices
// can be touched only while something of a device runs that declares it; addresses are not used
// again, so that old pointers show.
class Memory {
 public:
  static constexpr int kPinned = -1;
  explicit Memory(int devices);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* take(int device, std::size_t bytes);  // null when there is no more
  void give_back(Block& block);
  Block* find(std::uintptr_t at);      // also one that was freed; null: not memory of ours
  bool ours(std::uintptr_t at) const;  // in a region, allocated or not
  std::size_t used(int device) const { return region(device).used; }
  void limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  void enable_peer(int device, int peer) { peers_[{device, peer}] = true; }
  bool peer(int device, int other) const { return peers_.count({device, other}) != 0; }

  // Why something on `device` may not touch this, or "".
  std::string fault(const Range& range, int device, Toucher toucher);
  // Opens what of the ranges lies on devices; they have no faults.
  void open(const std::vector<Range>& ranges);
  void close();

  // Of the operation that runs, for the message when something touches memory that is closed.
  const std::string* running = nullptr;

 private:
  struct Region {
    std::uintptr_t lo = 0, next = 0;
    std::size_t used = 0;
  };
  Region& region(int device) { return regions_[static_cast<std::size_t>(device + 1)]; }
  const Region& region(int device) const { return regions_[static_cast<std::size_t>(device + 1)]; }
  std::vector<Region> regions_;  // pinned memory, then the devices
  std::map<std::uintptr_t, Block> blocks_;
  std::map<std::pair<int, int>, bool> peers_;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> open_;
  std::size_t limit_ = std::size_t{64} << 30;
};

// Memory that is open as long as an operation runs.
class Opened {
 public:
  Opened(Memory& memory, const std::string* what, const std::vector<Range>& ranges)
      : memory_(memory) {
    memory_.running = what;
    memory_.open(ranges);
  }
  ~Opened() {
    memory_.close();
    memory_.running = nullptr;
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  Memory& memory_;
};

}  // namespace belfry::sim
