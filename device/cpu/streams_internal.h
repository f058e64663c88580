// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "belfry/device/stream.h"

namespace belfry {

// FTZ, DAZ and the OpenMP thread count of the calling thread.
void bind_cpu_thread(int threads);

class CpuEvent : public Event {
 public:
  explicit CpuEvent(bool external) : external_(external) {}
  bool external() const noexcept override { return external_; }
  bool done() const override;
  void wait_host() const override;
  void require_recorded() const;
  bool recorded() const noexcept { return recorded_.load(std::memory_order_acquire); }
  void set_recorded() noexcept { recorded_.store(true, std::memory_order_release); }

 private:
  bool external_;
  std::atomic<bool> recorded_{false};
};

// A queued operation that owns what it needs.
struct OwnedTask {
  std::shared_ptr<void> object;
  void (*invoke)(void*);
  Touches touches;
  CpuEvent* records = nullptr;      // in a graph: the event that each replay records here,
  const CpuEvent* waits = nullptr;  // or waits for
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
  void set_threads(int threads) noexcept { threads_ = threads; }
  void* native() const noexcept override { return nullptr; }
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  bool capturing() const noexcept override { return graph_ != nullptr; }
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;
  // The whole call here and now, split over `threads` where that pays.
  static void run_kernel(const KernelCall& call, int threads);

 protected:
  void capture_record(CpuEvent& event);
  void capture_wait(const CpuEvent& event);
  // True when capturing: the task went into the graph instead.
  bool captured(const Touches& touches, const Task& task);
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
  void synchronize() override { require_running("synchronize"); }
  void host_access(const Touches&) override {}
  void replay(Graph& graph) override;

 protected:
  void submit(const Touches& touches, Task task) override;
};

// A stream that runs later: whatever is put on it is cloned and pushed.
class QueuedStream : public CpuStream {
 public:
  using CpuStream::CpuStream;
  void launch(const KernelCall& call) override;
  void replay(Graph& graph) override;

 protected:
  void submit(const Touches& touches, Task task) override;
  virtual void push(OwnedTask task) = 0;
};

// A worker thread runs the queue; for race detectors. An operation's exception comes out of the
// next synchronize(), what follows it runs all the same.
std::unique_ptr<Stream> make_threaded_stream(DeviceId device, int threads);
std::unique_ptr<Event> make_threaded_event(bool external);

}  // namespace belfry
