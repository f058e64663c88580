// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "belfry/device/stream.h"

namespace belfry {

// Names one collective for mismatch checks: every member issues the same tags in the same order.
struct CommTag {
  std::uint32_t kind = 0;  // caller's own numbering
  std::int32_t bucket = -1;
  std::int64_t update = 0;
};

// One member's end of a group of towers: asynchronous movement between devices, in stream order.
// Used by its tower's thread, abort() from any thread. A failed or aborted group throws CommError
// from every later call on every member and can only be destroyed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Sends send[p] (send_bytes[p]) to each member p; receives theirs into recv[p].
  virtual void exchange(Stream& s, std::span<const void* const> send,
                        std::span<const std::size_t> send_bytes, std::span<void* const> recv,
                        std::span<const std::size_t> recv_bytes, CommTag tag) = 0;
  // out = the members' `bytes` bytes in rank order; `in` may be its own place in `out`.
  virtual void all_gather(Stream& s, const void* in, void* out, std::size_t bytes, CommTag tag) = 0;
  virtual void broadcast(Stream& s, void* data, std::size_t bytes, int root, CommTag tag) = 0;
  // With a sum of its own, faster than exchange() and in no fixed order: the slices of counts[p]
  // floats of `in` are added up over the members, and slice p goes to member p's `out`. False where
  // there is none; then nothing has been done.
  virtual bool reduce_slices(Stream&, const float* /*in*/, float* /*out*/,
                             std::span<const std::size_t> /*counts*/, CommTag) {
    return false;
  }
  virtual bool healthy() const noexcept = 0;
  // Throws CommError when the group has failed: whatever came out of its collectives is void then.
  virtual void require_healthy() const = 0;
  virtual void abort() noexcept = 0;
  virtual void close() = 0;  // collective, when nothing is pending
};

// Host-side agreement between the towers of a group: small, blocking, once or twice an update.
class Control {
 public:
  virtual ~Control() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Everybody's bytes in rank order; lengths may differ.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
  virtual void barrier() = 0;
  virtual void abort() noexcept = 0;
};

// Host threads and their waits. Everything above device/ starts threads and blocks only through
// it, so that a simulator can stand in. run() may not be nested.
class Host {
 public:
  virtual ~Host() = default;
  // Runs body(arg, 0..n-1) concurrently, each index on its own thread, the same one every time;
  // returns when all have. Rethrows the exception of the lowest index.
  virtual void run(int n, void (*body)(void*, int), void* arg) = 0;
  // Runs body(arg) on a thread of its own until it returns; join() waits for it.
  virtual std::uint64_t spawn(void (*body)(void*), void* arg) = 0;
  virtual void join(std::uint64_t thread) = 0;
  // Returns when ready(arg) is true: spins at most 50 us, then sleeps. ready() is called again
  // after every notify(). Whoever changes what ready() reads calls notify() after it.
  virtual void wait(bool (*ready)(void*), void* arg) = 0;
  virtual void notify() noexcept = 0;
  // wait() for at most `seconds`; what ready() said last. Without a clock, as in a simulator, there
  // is no limit.
  virtual bool wait_for(bool (*ready)(void*), void* arg, double /*seconds*/) {
    wait(ready, arg);
    return true;
  }
  // Gives up a spawned thread that may never end: it goes on alone and must touch nothing whose
  // life ends before the process does.
  virtual void abandon(std::uint64_t thread) { join(thread); }
  // What happened before publish(key, phase) is visible after observe(key, phase): said beside the
  // atomic that makes it so, from host threads and from stream operations. Only a simulator
  // listens.
  virtual void publish(const void*, std::uint64_t = 0) noexcept {}
  virtual void observe(const void*, std::uint64_t = 0) noexcept {}

  template <class F>
  void run(int n, F&& f) {
    run(
        n, [](void* a, int i) { (*static_cast<std::remove_reference_t<F>*>(a))(i); }, &f);
  }
  template <class F>
  void wait(F&& f) {
    wait([](void* a) -> bool { return (*static_cast<std::remove_reference_t<F>*>(a))(); }, &f);
  }
  template <class F>
  bool wait_for(F&& f, double seconds) {
    return wait_for(
        [](void* a) -> bool { return (*static_cast<std::remove_reference_t<F>*>(a))(); }, &f,
        seconds);
  }
};

}  // namespace belfry
