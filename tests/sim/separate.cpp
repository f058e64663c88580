// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/separate.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace belfry::sim {
namespace {

constexpr std::size_t kReserved = std::size_t{1} << 30;  // of address space, a device
constexpr std::size_t kPage = 4096;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

void Intervals::add(std::uintptr_t lo, std::uintptr_t hi) {
  remove(lo, hi);
  if (lo < hi) ranges_[lo] = hi;
}

void Intervals::remove(std::uintptr_t lo, std::uintptr_t hi) {
  auto it = ranges_.lower_bound(lo);
  if (it != ranges_.begin() && std::prev(it)->second > lo) --it;
  while (it != ranges_.end() && it->first < hi) {
    const auto [from, to] = *it;
    it = ranges_.erase(it);
    if (from < lo) ranges_[from] = lo;
    if (to > hi) ranges_[hi] = to;
  }
}

bool Intervals::covers(std::uintptr_t lo, std::uintptr_t hi) const {
  while (lo < hi) {
    auto it = ranges_.upper_bound(lo);
    if (it == ranges_.begin() || (--it)->second <= lo) return false;
    lo = it->second;
  }
  return true;
}

bool Intervals::overlaps(std::uintptr_t lo, std::uintptr_t hi) const {
  auto it = ranges_.upper_bound(lo);
  if (it != ranges_.begin() && std::prev(it)->second > lo) return true;
  return it != ranges_.end() && it->first < hi;
}

SeparateMemory::~SeparateMemory() {
  for (auto& [device, region] : regions_) ::munmap(reinterpret_cast<void*>(region.base), kReserved);
}

void* SeparateMemory::map(int device, std::size_t bytes) {
  Region& region = regions_[device];
  if (region.base == 0) {
    void* p =
        ::mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    region.base = address(p);
  }
  if (region.used + bytes > kReserved) throw std::bad_alloc();
  void* const out = reinterpret_cast<void*>(region.base + region.used);
  region.used += bytes;
  open(device, 1);
  std::memset(out, 0xFF, bytes);
  open(device, -1);
  return out;
}

void SeparateMemory::open(int device, int by) {
  Region& region = regions_[device];
  region.open += by;
  if (region.base == 0) return;
  const std::size_t bytes = (region.used + kPage - 1) / kPage * kPage;
  ::mprotect(reinterpret_cast<void*>(region.base), bytes,
             region.open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void SeparateMemory::pin(const void* data, std::size_t bytes) {
  pinned_.add(address(data), address(data) + bytes);
}

void SeparateMemory::unpin(const void* data, std::size_t bytes) {
  taken(data, bytes);
  pinned_.remove(address(data), address(data) + bytes);
}

void SeparateMemory::taken(const void* data, std::size_t bytes) {
  written_.remove(address(data), address(data) + bytes);
  unread_.remove(address(data), address(data) + bytes);
}

int SeparateMemory::where(std::uintptr_t at) const {
  for (const auto& [device, region] : regions_)
    if (region.base <= at && at < region.base + kReserved) return device;
  return pinned_.covers(at, at + 1) ? kPinned : kPageable;
}

void SeparateMemory::submitted(Kind kind, int device, int queue, const std::vector<Range>& ranges,
                               const std::string& what) {
  const bool moves = kind == Kind::copy || kind == Kind::fill;
  if (const auto it = unsettled_.find(queue); it != unsettled_.end() && !moves)
    scheduler_.report(it->second + " of pageable memory is not followed by a synchronize but by " +
                      what);
  for (const Range& r : ranges) {
    const int place = where(r.lo);
    if (kind == Kind::copy && place == kPageable) {
      ++pageable_copies_;
      ++by_name_[what];
      unsettled_[queue] = what;
    }
    if (kind == Kind::copy || place == device || place == kPinned) continue;
    scheduler_.report(what + (r.write ? " writes " : " reads ") +
                      (place == kPageable ? "host memory that is not pinned"
                                          : "memory of device " + std::to_string(place)));
  }
}

void SeparateMemory::host_access(const std::vector<Range>& ranges) {
  for (const Range& r : ranges) {
    unread_.remove(r.lo, r.hi);
    if (r.write && where(r.lo) == kPinned) written_.add(r.lo, r.hi);
    if (where(r.lo) >= 0) scheduler_.report("the host announces to access device memory");
  }
}

std::vector<int> SeparateMemory::devices_of(int device, const std::vector<Range>& ranges) const {
  std::vector<int> out;
  for (const auto& [d, region] : regions_) {
    const bool touched = std::any_of(ranges.begin(), ranges.end(),
                                     [&, d = d](const Range& r) { return where(r.lo) == d; });
    if (device < 0 || d == device || touched) out.push_back(d);
  }
  return out;
}

void SeparateMemory::begin(int device, const std::vector<Range>& ranges, const std::string& what) {
  for (const Range& r : ranges) {
    if (where(r.lo) != kPinned) continue;
    if (!r.write && !written_.covers(r.lo, r.hi))
      scheduler_.report(what + " reads pinned memory that nobody has announced or written");
    if (r.write && unread_.overlaps(r.lo, r.hi))
      scheduler_.report(what + " writes pinned memory that nobody has announced to read");
  }
  for (const Range& r : ranges)
    if (r.write && where(r.lo) == kPinned) {
      written_.add(r.lo, r.hi);
      unread_.add(r.lo, r.hi);
    }
  for (const int d : devices_of(device, ranges)) open(d, 1);
}

void SeparateMemory::end(int device, const std::vector<Range>& ranges) {
  for (const int d : devices_of(device, ranges)) open(d, -1);
}

}  // namespace belfry::sim
