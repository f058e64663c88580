// SPDX-License-Identifier: MIT
#include <omp.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "belfry/device/cpu/arena_internal.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/cpu/lazy_stream_internal.h"
#include "belfry/device/use_stream.h"

namespace belfry {
namespace {

class CpuDevice : public Device {
 public:
  CpuDevice(int index, int threads, Executor executor)
      : id_{Backend::cpu, index},
        threads_(threads),
        executor_(executor),
        main_(CpuDevice::stream(0)) {}
  ~CpuDevice() override = default;

  DeviceId id() const noexcept override { return id_; }
  std::unique_ptr<Stream> stream(int) override {
    switch (executor_) {
      case Executor::lazy:
        return std::make_unique<LazyStream>(id_, threads_);
      case Executor::threaded:
        return make_threaded_stream(id_, threads_);
      case Executor::in_place:
        break;
    }
    return std::make_unique<InPlaceStream>(id_, threads_);
  }
  std::unique_ptr<Event> event(bool external) override {
    switch (executor_) {
      case Executor::lazy:
        return std::make_unique<LazyEvent>(external);
      case Executor::threaded:
        return make_threaded_event(external);
      case Executor::in_place:
        break;
    }
    return std::make_unique<CpuEvent>(external);
  }
  // Pinned memory is filled by host threads at once: a block of it must not have been freed while
  // queued operations still read it.
  Arena& arena(MemoryKind kind) override { return kind == MemoryKind::pinned ? pinned_ : arena_; }
  Stream& main() override {
    Stream* const used = stream_in_use(*this);
    return used != nullptr ? *used : *main_;
  }
  int threads() const noexcept override { return threads_; }
  void set_threads(int threads) override {
    threads_ = threads;
    static_cast<CpuStream*>(main_.get())->set_threads(threads);
    if (executor_ == Executor::threaded)  // its worker has its own setting
      main_->run({}, [threads] { bind_cpu_thread(threads); });
  }
  bool host_memory() const noexcept override { return true; }
  void synchronize() override { main_->synchronize(); }
  void bind_thread() override { bind_cpu_thread(threads_); }

 private:
  DeviceId id_;
  int threads_;
  Executor executor_;
  BlockArena arena_, pinned_;
  std::unique_ptr<Stream> main_;
};

}  // namespace

void bind_cpu_thread(int threads) {
  omp_set_num_threads(threads);  // per thread in libgomp; before any primitive is created
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ: denormals cost 100x on some CPUs
#endif
}

std::unique_ptr<Device> make_cpu_device(int index, int threads, Executor executor) {
  return std::make_unique<CpuDevice>(index, threads, executor);
}

}  // namespace belfry
