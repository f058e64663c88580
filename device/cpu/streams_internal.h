// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "belfry/device/stream.h"

namespace belfry {

class LazyStream;

class CpuEvent : public Event {
 public:
  explicit CpuEvent(bool external) : external_(external) {}
  bool external() const noexcept override { return external_; }
  bool done() const override;
  void wait_host() const override;

 private:
  friend class CpuStream;
  friend class InPlaceStream;
  friend class LazyStream;
  void require_recorded() const;
  bool external_;
  std::atomic<bool> recorded_{false};
  LazyStream* stream_ = nullptr;  // lazy only: where, and after how many operations
  std::uint64_t position_ = 0;
};

// A queued operation that owns what it needs.
struct OwnedTask {
  std::shared_ptr<void> object;
  void (*invoke)(void*);
  Touches touches;
  CpuEvent* records = nullptr;  // in a graph: the event that each replay records here
  void operator()() const { invoke(object.get()); }
};

class CpuGraph : public Graph {
 public:
  std::vector<OwnedTask> tasks;
};

// What both executors share: kernels split over threads, capture.
class CpuStream : public Stream {
 public:
  CpuStream(DeviceId device, int threads) : device_(device), threads_(threads) {}
  DeviceId device() const noexcept override { return device_; }
  void* native() const noexcept override { return nullptr; }
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;

 protected:
  void capture_record(CpuEvent& event);
  // True when capturing: the task went into the graph instead.
  bool captured(const Touches& touches, const Task& task);
  static void run_kernel(const KernelCall& call, int threads);
  bool capturing() const noexcept { return graph_ != nullptr; }
  int threads() const noexcept { return threads_; }

 private:
  DeviceId device_;
  int threads_;
  std::unique_ptr<CpuGraph> graph_;
};

class InPlaceStream : public CpuStream {
 public:
  using CpuStream::CpuStream;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void launch(const KernelCall& call) override;
  void synchronize() override {}
  void host_access(const Touches&) override {}
  void replay(Graph& graph) override;

 protected:
  void submit(const Touches& touches, Task task) override;
};

// Runs nothing until a host waits on it, or on a stream that waits for it. Checks announced host
// accesses against what is still queued.
class LazyStream : public CpuStream {
 public:
  using CpuStream::CpuStream;
  ~LazyStream() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void launch(const KernelCall& call) override;
  void synchronize() override;
  void host_access(const Touches& touches) override;
  void replay(Graph& graph) override;
  void run_to(std::uint64_t position);  // from any thread
  bool reached(std::uint64_t position) const;

 protected:
  void submit(const Touches& touches, Task task) override;

 private:
  void push(OwnedTask task);
  mutable std::recursive_mutex mutex_;
  std::deque<OwnedTask> queue_;
  std::uint64_t pushed_ = 0, ran_ = 0;
};

}  // namespace belfry
