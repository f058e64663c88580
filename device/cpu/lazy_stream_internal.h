// SPDX-License-Identifier: MIT
#pragma once
#include <deque>

#include "belfry/device/cpu/streams_internal.h"

namespace belfry {

class LazyStream;

class LazyEvent : public CpuEvent {
 public:
  using CpuEvent::CpuEvent;
  bool done() const override;
  void wait_host() const override;

 private:
  friend class LazyStream;
  LazyStream* stream_ = nullptr;  // where, and after how many operations
  std::uint64_t position_ = 0;
};

// Runs nothing until a host waits on it, or on a stream that waits for it. Checks announced host
// accesses against what is still queued. One lock for all lazy streams: they run each other.
class LazyStream : public QueuedStream {
 public:
  using QueuedStream::QueuedStream;
  ~LazyStream() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  void host_access(const Touches& touches) override;
  void run_to(std::uint64_t position);  // from any thread
  bool reached(std::uint64_t position) const;

 protected:
  void push(OwnedTask task) override;

 private:
  std::deque<OwnedTask> queue_;
  std::uint64_t pushed_ = 0, ran_ = 0;
};

}  // namespace belfry
