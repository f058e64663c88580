// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "belfry/device/stream.h"
#include "belfry/device/types.h"

namespace belfry {

struct ArenaStats {
  std::size_t live_bytes = 0;       // handed out now
  std::size_t peak_bytes = 0;       // largest live_bytes
  std::size_t reserved_bytes = 0;   // taken from the system
  std::size_t system_requests = 0;  // how often the system was asked
};

// Memory of one device, kept for reuse: in a warmed-up step nothing comes from the system. Blocks
// are 64-byte aligned; a block given back is reused in stream order. Thread-safe.
// take() throws DeviceError when the system refuses.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual void* take(std::size_t bytes) = 0;
  virtual void give_back(void* p, std::size_t bytes) noexcept = 0;
  virtual ArenaStats stats() const = 0;
  // From now on take() refuses what would make reserved_bytes larger than `bytes`. Where it is not
  // overridden there is no limit.
  virtual void set_limit(std::size_t /*bytes*/) noexcept {}
};

enum class MemoryKind : std::uint8_t { device, pinned };

// One compute device, used by one host thread at a time (its tower's worker). Owns its arenas and
// the library handles in its slots; must outlive every tensor on it.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceId id() const noexcept = 0;
  virtual std::unique_ptr<Stream> stream(int priority = 0) = 0;
  virtual std::unique_ptr<Event> event(bool external = false) = 0;
  virtual Arena& arena(MemoryKind kind = MemoryKind::device) = 0;
  virtual Stream& main() = 0;                     // the stream ops run on
  virtual int threads() const noexcept = 0;       // host threads a kernel or library call may use
  virtual void set_threads(int threads) = 0;      // before its first use
  virtual bool host_memory() const noexcept = 0;  // device memory can be read by the host
  virtual void synchronize() = 0;
  // Called by the worker thread before any other use: thread counts, FTZ, current device.
  virtual void bind_thread() = 0;

  // A per-device object made on first use: library handles, plan caches.
  template <class T>
  T& slot() {
    auto& s = slots_[std::type_index(typeid(T))];
    if (!s) s = std::make_shared<T>();
    return *static_cast<T*>(s.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> slots_;
};

}  // namespace belfry
