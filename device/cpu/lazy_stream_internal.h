// SPDX-License-Identifier: MIT
#pragma once
#include <deque>

#include "belfry/device/cpu/streams_internal.h"

namespace belfry {

// What is queued on a lazy stream. Shared with the events recorded there and the streams that wait
// for them, which may outlive it. Its calls take the one lock of all lazy streams: they run each
// other's operations.
class LazyQueue {
 public:
  void push(OwnedTask task);
  void run_to(std::uint64_t position);  // from any thread
  void run_all();
  bool reached(std::uint64_t position) const;
  std::uint64_t pushed() const;
  void drop();  // what nobody waited for never runs
  bool uses(const Touches& touches) const;

 private:
  std::deque<OwnedTask> queue_;
  std::uint64_t pushed_ = 0, ran_ = 0;
};

class LazyEvent : public CpuEvent {
 public:
  using CpuEvent::CpuEvent;
  bool done() const override;
  void wait_host() const override;

 private:
  friend class LazyStream;
  std::shared_ptr<LazyQueue> queue_;  // where, and after how many operations
  std::uint64_t position_ = 0;
};

// Runs nothing until a host waits on it, or on a stream that waits for it. Checks announced host
// accesses against what is still queued.
class LazyStream : public QueuedStream {
 public:
  using QueuedStream::QueuedStream;
  ~LazyStream() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  void host_access(const Touches& touches) override;

 protected:
  void push(OwnedTask task) override;

 private:
  std::shared_ptr<LazyQueue> queue_ = std::make_shared<LazyQueue>();
};

}  // namespace belfry
