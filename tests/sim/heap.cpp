// SPDX-License-Identifier: MIT
// Heap blocks change hands between threads without a word to the simulator, so their history ends
// when they are freed; freeing what a stream still uses is a write like any other.
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "belfry/tests/sim/host.h"

namespace {

belfry::sim::Scheduler* watcher = nullptr;
thread_local bool inside = false;

void release(void* p) noexcept {
  if (watcher != nullptr && p != nullptr && !inside) {
    inside = true;
    const auto lo = reinterpret_cast<std::uintptr_t>(p);
    watcher->freed(lo, lo + ::malloc_usable_size(p));
    inside = false;
  }
  std::free(p);
}

void* take(std::size_t bytes) {
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}

void* take(std::size_t bytes, std::align_val_t align) {
  void* p = nullptr;
  if (::posix_memalign(&p, static_cast<std::size_t>(align), bytes == 0 ? 1 : bytes) == 0) return p;
  throw std::bad_alloc();
}

}  // namespace

namespace belfry::sim {
void watch_heap(Scheduler* scheduler) { watcher = scheduler; }
}  // namespace belfry::sim

void* operator new(std::size_t n) { return take(n); }
void* operator new[](std::size_t n) { return take(n); }
void* operator new(std::size_t n, std::align_val_t a) { return take(n, a); }
void* operator new[](std::size_t n, std::align_val_t a) { return take(n, a); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return std::malloc(n == 0 ? 1 : n);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return std::malloc(n == 0 ? 1 : n);
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
