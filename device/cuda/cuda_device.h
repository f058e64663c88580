// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "belfry/device/cpu/arena_internal.h"
#include "belfry/device/cuda/check.h"
#include "belfry/device/cuda/kernel_table.h"
#include "belfry/device/device.h"
#include "belfry/device/use_stream.h"

namespace belfry {

class CudaEvent : public Event {
 public:
  CudaEvent(int gpu, bool external);
  ~CudaEvent() override;
  bool external() const noexcept override { return external_; }
  bool done() const override;
  void wait_host() const override;
  cudaEvent_t handle() const noexcept { return event_; }
  bool recorded() const noexcept { return recorded_.load(std::memory_order_acquire); }
  void set_recorded() noexcept { recorded_.store(true, std::memory_order_release); }
  void require_recorded() const;  // CUDA itself takes a wait for nothing as done

 private:
  int gpu_;
  bool external_;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> recorded_{false};
};

class CudaGraph : public Graph {
 public:
  CudaGraph(int gpu, cudaGraph_t graph);
  ~CudaGraph() override;
  cudaGraphExec_t handle() const noexcept { return exec_; }

 private:
  int gpu_;
  cudaGraphExec_t exec_ = nullptr;
};

// A CUDA stream. Kernels are found by name; a host function that throws shows at the next
// synchronize(). Used by one host thread at a time, from any.
class CudaStream : public Stream {
 public:
  CudaStream(CudaDevice& device, int gpu, int priority);
  ~CudaStream() override;
  DeviceId device() const noexcept override { return {Backend::cuda, gpu_}; }
  void* native() const noexcept override { return stream_; }
  cudaStream_t handle() const noexcept { return stream_; }
  void record(Event& event) override;
  void wait(const Event& event) override;
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  void launch(const KernelCall& call) override;
  void synchronize() override;
  void host_access(const Touches& touches) override;
  bool capturing() const noexcept override { return capturing_; }
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;
  void replay(Graph& graph) override;

 protected:
  void submit(const Touches& touches, Task task) override;

 private:
  struct HostCall;
  bool in_capture() const;
  static void CUDART_CB run_host_call(void* call);
  CudaDevice& device_;
  int gpu_;
  cudaStream_t stream_ = nullptr;
  bool capturing_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;                     // of a host function; CUDA's thread writes it
  std::vector<std::unique_ptr<HostCall>> kept_;  // captured host functions: a replay calls them
};

// One tower's GPU; several towers may have the same one, each with its own streams and memory.
class CudaDevice : public Device {
 public:
  CudaDevice(int gpu, Precision precision, const KernelTable& kernels);
  ~CudaDevice() override;
  DeviceId id() const noexcept override { return {Backend::cuda, gpu_}; }
  int gpu() const noexcept { return gpu_; }
  Precision precision() const noexcept { return precision_; }
  const KernelTable& kernels() const noexcept { return kernels_; }
  std::unique_ptr<Stream> stream(int priority = 0) override;
  std::unique_ptr<Event> event(bool external = false) override;
  Arena& arena(MemoryKind kind) override { return kind == MemoryKind::pinned ? pinned_ : arena_; }
  Stream& main() override {
    Stream* const used = stream_in_use(*this);
    return used != nullptr ? *used : *main_;
  }
  int threads() const noexcept override { return 1; }
  void set_threads(int) override {}
  bool host_memory() const noexcept override { return false; }
  void synchronize() override;
  void bind_thread() override;
  // Before its arenas take memory: waits for all its streams. What is recorded does not run.
  void settle();
  void add(CudaStream& stream);
  void remove(CudaStream& stream) noexcept;

 private:
  int gpu_;
  Precision precision_;
  const KernelTable& kernels_;
  std::mutex mutex_;
  std::vector<CudaStream*> streams_;  // all there are
  BlockArena arena_, pinned_;
  std::unique_ptr<CudaStream> main_;
};

}  // namespace belfry
