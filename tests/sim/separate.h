// SPDX-License-Identifier: MIT
// Device memory that the host cannot touch, on simulated devices.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "belfry/tests/sim/scheduler.h"

namespace belfry::sim {

// A set of bytes, as ranges [lo, hi).
class Intervals {
 public:
  void add(std::uintptr_t lo, std::uintptr_t hi);
  void remove(std::uintptr_t lo, std::uintptr_t hi);
  bool covers(std::uintptr_t lo, std::uintptr_t hi) const;
  bool overlaps(std::uintptr_t lo, std::uintptr_t hi) const;

 private:
  std::map<std::uintptr_t, std::uintptr_t> ranges_;
};

// The memory of devices as GPUs have it. A device's own is a mapping without any access while none
// of its operations runs, so that a host that dereferences it dies there; pinned memory is ordinary
// memory that is known here. What an operation may not touch is reported to the scheduler:
// - a kernel: memory of another device, and host memory that is not pinned;
// - a copy: nothing, but one to or from pageable memory counts, and has to be followed by a
//   synchronize before anything but copies and fills;
// - both: pinned memory that neither the host has announced to write nor a stream has written, and
//   pinned memory whose content the host has not announced to read since a stream wrote it.
class SeparateMemory {
 public:
  static constexpr int kPinned = -1, kPageable = -2;

  explicit SeparateMemory(Scheduler& scheduler) : scheduler_(scheduler) {}
  ~SeparateMemory();
  SeparateMemory(const SeparateMemory&) = delete;
  SeparateMemory& operator=(const SeparateMemory&) = delete;

  void* map(int device, std::size_t bytes);  // new memory, full of NaN; never given back
  void pin(const void* data, std::size_t bytes);
  void unpin(const void* data, std::size_t bytes);
  void taken(const void* data, std::size_t bytes);  // pinned: what was there means nothing

  int where(std::uintptr_t at) const;  // a device, kPinned or kPageable
  enum class Kind : std::uint8_t { kernel, copy, fill, other };
  // An operation is put on a queue of `device`.
  void submitted(Kind kind, int device, int queue, const std::vector<Range>& ranges,
                 const std::string& what);
  void synchronized(int queue) { unsettled_.erase(queue); }
  void host_access(const std::vector<Range>& ranges);
  // Around an operation of `device` that runs; -1: one of all devices.
  void begin(int device, const std::vector<Range>& ranges, const std::string& what);
  void end(int device, const std::vector<Range>& ranges);

  std::uint64_t pageable_copies() const { return pageable_copies_; }
  const std::map<std::string, std::uint64_t>& pageable_by_name() const { return by_name_; }

 private:
  struct Region {
    std::uintptr_t base = 0, used = 0;
    int open = 0;
  };
  void open(int device, int by);
  std::vector<int> devices_of(int device, const std::vector<Range>& ranges) const;

  Scheduler& scheduler_;
  std::map<int, Region> regions_;
  Intervals pinned_, written_, unread_;
  std::map<int, std::string> unsettled_;  // by queue: the last pageable copy
  std::map<std::string, std::uint64_t> by_name_;
  std::uint64_t pageable_copies_ = 0;
};

}  // namespace belfry::sim
