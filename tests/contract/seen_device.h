// SPDX-License-Identifier: MIT
// CPU devices whose kernel calls pass through a test's hands.
#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/stream.h"

namespace belfry::contract {

// Gets every call before it is launched, and may change it.
using OnLaunch = std::function<void(KernelCall&)>;

class SeenStream : public Stream {
 public:
  SeenStream(Stream& stream, OnLaunch on_launch)
      : stream_(stream), on_launch_(std::move(on_launch)) {}
  DeviceId device() const noexcept override { return stream_.device(); }
  void* native() const noexcept override { return stream_.native(); }
  void record(Event& event) override { stream_.record(event); }
  void wait(const Event& event) override { stream_.wait(event); }
  void copy(void* to, const void* from, std::size_t n) override { stream_.copy(to, from, n); }
  void fill(void* to, int byte, std::size_t n) override { stream_.fill(to, byte, n); }
  void launch(const KernelCall& call) override {
    KernelCall mine = call;
    on_launch_(mine);
    stream_.launch(mine);
  }
  void synchronize() override { stream_.synchronize(); }
  void host_access(const Touches& touches) override { stream_.host_access(touches); }
  bool capturing() const noexcept override { return stream_.capturing(); }
  void begin_capture() override { stream_.begin_capture(); }
  std::unique_ptr<Graph> end_capture() override { return stream_.end_capture(); }
  void replay(Graph& graph) override { stream_.replay(graph); }

 protected:
  void submit(const Touches& touches, Task task) override {
    stream_.run(touches, [task] { task.invoke(task.object); });  // at once: the device is in place
  }

 private:
  Stream& stream_;
  OnLaunch on_launch_;
};

class SeenDevice : public Device {
 public:
  SeenDevice(int index, OnLaunch on_launch)
      : device_(make_cpu_device(index, 1, Executor::in_place)),
        main_(device_->main(), std::move(on_launch)) {}
  DeviceId id() const noexcept override { return device_->id(); }
  std::unique_ptr<Stream> stream(int priority) override { return device_->stream(priority); }
  std::unique_ptr<Event> event(bool external) override { return device_->event(external); }
  Arena& arena(MemoryKind kind) override { return device_->arena(kind); }
  Stream& main() override { return main_; }
  int threads() const noexcept override { return 1; }
  void set_threads(int) override {}
  bool host_memory() const noexcept override { return true; }
  void synchronize() override { device_->synchronize(); }
  void bind_thread() override { device_->bind_thread(); }

 private:
  std::unique_ptr<Device> device_;
  SeenStream main_;
};

}  // namespace belfry::contract
