// SPDX-License-Identifier: MIT
#include "belfry/tests/simcuda/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace belfry::sim {
namespace {

constexpr std::size_t kRegion = std::size_t{16} << 30, kPage = 4096, kAlign = 256;
constexpr std::size_t kFilled = std::size_t{64} << 20;  // larger blocks are not filled with NaN

std::uintptr_t up(std::uintptr_t v, std::uintptr_t to) { return (v + to - 1) / to * to; }

void protect(std::uintptr_t lo, std::uintptr_t hi, int how) {
  if (mprotect(reinterpret_cast<void*>(lo), hi - lo, how) != 0) std::abort();
}

const Memory* watched = nullptr;
struct sigaction before;

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) std::abort();
}

// Says what happened before whoever handled the signal so far does.
void on_fault(int, siginfo_t* info, void*) {
  if (watched != nullptr && watched->ours(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    if (watched->running == nullptr) {
      say("simulated CUDA: the host touches device memory\n");
    } else {
      say("simulated CUDA: undeclared device memory is touched by ");
      say(watched->running->c_str());
      say("\n");
    }
  }
  sigaction(SIGSEGV, &before, nullptr);  // the instruction runs again and meets it
}

}  // namespace

Memory::Memory(int devices) : regions_(static_cast<std::size_t>(devices) + 1) {
  for (Region& r : regions_) {
    void* p = mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    r.lo = r.next = reinterpret_cast<std::uintptr_t>(p);
  }
  watched = this;
  struct sigaction now = {};
  now.sa_sigaction = on_fault;
  now.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &now, &before);
}

Memory::~Memory() {
  watched = nullptr;
  sigaction(SIGSEGV, &before, nullptr);
  for (Region& r : regions_) munmap(reinterpret_cast<void*>(r.lo), kRegion);
}

void* Memory::take(int device, std::size_t bytes) {
  Region& r = region(device);
  // Pinned blocks have pages of their own: a freed one is closed.
  const std::size_t align = device == kPinned ? kPage : kAlign;
  const std::uintptr_t lo = up(r.next, align), next = up(lo + bytes, align) + kAlign;
  if (bytes > kRegion || next > r.lo + kRegion) return nullptr;
  if (device != kPinned && r.used + bytes > limit_) return nullptr;
  r.next = next;
  r.used += bytes;
  blocks_[lo] = {lo, bytes, device, false};
  const std::uintptr_t first = lo / kPage * kPage, last = up(lo + bytes, kPage);
  protect(first, last, PROT_READ | PROT_WRITE);
  if (bytes <= kFilled) std::memset(reinterpret_cast<void*>(lo), 0xFF, bytes);
  if (device != kPinned) protect(first, last, PROT_NONE);
  return reinterpret_cast<void*>(lo);
}

void Memory::give_back(Block& block) {
  block.freed = true;
  region(block.device).used -= block.bytes;
  const std::uintptr_t first = block.device == kPinned ? block.lo : up(block.lo, kPage),
                       last = block.device == kPinned ? up(block.lo + block.bytes, kPage)
                                                      : (block.lo + block.bytes) / kPage * kPage;
  if (first >= last) return;
  protect(first, last, PROT_NONE);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Block* Memory::find(std::uintptr_t at) {
  auto it = blocks_.upper_bound(at);
  if (it == blocks_.begin()) return nullptr;
  Block& b = std::prev(it)->second;
  return at < b.lo + std::max<std::size_t>(b.bytes, 1) ? &b : nullptr;
}

bool Memory::ours(std::uintptr_t at) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [at](const Region& r) { return at >= r.lo && at < r.lo + kRegion; });
}

std::string Memory::fault(const Range& range, int device, Toucher toucher) {
  if (range.lo >= range.hi) return {};
  const Block* b = find(range.lo);
  if (b == nullptr) {
    if (ours(range.lo)) return "touches memory outside of every allocation";
    if (range.lo < kPage) return "touches a null pointer";
    return toucher == Toucher::kernel ? "touches pageable host memory" : "";
  }
  if (!b->contains(range)) return "touches memory past the end of its allocation";
  if (b->freed) return "touches memory that was freed";
  if (toucher == Toucher::kernel && b->device != kPinned && b->device != device &&
      !peer(device, b->device))
    return "touches memory of another device without peer access";
  if (toucher == Toucher::host_func && b->device != kPinned)
    return "is a host function and touches device memory";
  return {};
}

void Memory::open(const std::vector<Range>& ranges) {
  for (const Range& r : ranges) {
    const Block* b = r.lo < r.hi ? find(r.lo) : nullptr;
    if (b != nullptr && b->device != kPinned)
      open_.push_back({r.lo / kPage * kPage, up(r.hi, kPage)});
  }
  std::sort(open_.begin(), open_.end());
  std::size_t kept = 0;
  for (std::size_t i = 1; i < open_.size(); ++i) {
    if (open_[i].first <= open_[kept].second)
      open_[kept].second = std::max(open_[kept].second, open_[i].second);
    else
      open_[++kept] = open_[i];
  }
  if (!open_.empty()) open_.resize(kept + 1);
  for (const auto& [lo, hi] : open_) protect(lo, hi, PROT_READ | PROT_WRITE);
}

void Memory::close() {
  for (const auto& [lo, hi] : open_) protect(lo, hi, PROT_NONE);
  open_.clear();
}

}  // namespace belfry::sim
