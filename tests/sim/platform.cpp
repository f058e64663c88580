// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/platform.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "belfry/core/error.h"
#include "belfry/device/use_stream.h"

namespace belfry::sim {
namespace {

class SimEvent : public CpuEvent {
 public:
  SimEvent(Scheduler& scheduler, bool external) : CpuEvent(external), scheduler_(scheduler) {}
  bool done() const override {
    if (!recorded() || (mark != nullptr && !mark->done)) return false;
    if (mark != nullptr) scheduler_.wait_host(*mark);  // who sees it done knows what came before
    return true;
  }
  void wait_host() const override {
    scheduler_.call("wait for an event");
    scheduler_.count_host_wait();
    require_recorded();
    if (mark != nullptr) scheduler_.wait_host(*mark);
  }
  std::shared_ptr<Mark> mark;  // of the last record

 private:
  Scheduler& scheduler_;
};

// Memory as the product's arena hands it out: the last block given back comes first. New memory is
// full of NaN, so that reading what nobody wrote shows.
class SimArena : public Arena {
 public:
  SimArena(Scheduler& scheduler, SeparateMemory* memory, int device)
      : scheduler_(scheduler), memory_(memory), device_(device) {}
  ~SimArena() override {
    for (auto& [size, blocks] : free_)
      for (void* p : blocks) {
        const auto lo = reinterpret_cast<std::uintptr_t>(p);
        scheduler_.freed(lo, lo + size);
        if (memory_ != nullptr && device_ < 0) memory_->unpin(p, size);
        if (memory_ == nullptr || device_ < 0) std::free(p);
      }
  }
  void* take(std::size_t bytes) override {
    scheduler_.call("take memory");
    const std::size_t size = rounded(bytes);
    auto& list = free_[size];
    stats_.live_bytes += size;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    if (!list.empty()) {
      void* p = list.back();
      list.pop_back();
      if (memory_ != nullptr && device_ < 0) memory_->taken(p, size);
      return p;
    }
    ++stats_.system_requests;
    stats_.reserved_bytes += size;
    if (memory_ != nullptr && device_ >= 0) return memory_->map(device_, size);
    void* p = std::aligned_alloc(64, size);
    std::memset(p, 0xFF, size);
    if (memory_ != nullptr) memory_->pin(p, size);
    return p;
  }
  void give_back(void* p, std::size_t bytes) noexcept override {
    stats_.live_bytes -= rounded(bytes);
    free_[rounded(bytes)].push_back(p);
  }
  ArenaStats stats() const override { return stats_; }

 private:
  static std::size_t rounded(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  }
  Scheduler& scheduler_;
  SeparateMemory* memory_;  // null: the host's
  int device_;              // -1: pinned memory
  std::map<std::size_t, std::vector<void*>> free_;
  ArenaStats stats_;
};

class SimDevice : public Device {
 public:
  SimDevice(Scheduler& scheduler, SeparateMemory* memory, int index, int threads)
      : scheduler_(scheduler),
        memory_(memory),
        id_{Backend::cpu, index},
        threads_(threads),
        arena_(scheduler, memory, index),
        pinned_(scheduler, memory, -1),
        main_(SimDevice::make(" main")) {}
  ~SimDevice() override { scheduler_.discard(id_.index); }
  DeviceId id() const noexcept override { return id_; }
  std::unique_ptr<Stream> stream(int) override {
    scheduler_.call("make a stream");
    return make(" side");
  }
  std::unique_ptr<Event> event(bool external) override {
    scheduler_.call("make an event");
    return std::make_unique<SimEvent>(scheduler_, external);
  }
  Arena& arena(MemoryKind kind) override { return kind == MemoryKind::pinned ? pinned_ : arena_; }
  Stream& main() override {
    Stream* const used = stream_in_use(*this);
    return used != nullptr ? *used : *main_;
  }
  int threads() const noexcept override { return threads_; }
  void set_threads(int) override {}  // kernels run whole here
  bool host_memory() const noexcept override { return memory_ == nullptr; }
  void synchronize() override { main_->synchronize(); }
  void bind_thread() override { bind_cpu_thread(threads_); }

 private:
  std::unique_ptr<SimStream> make(const char* name) {
    return std::make_unique<SimStream>(scheduler_, memory_, id_, threads_, name_of(id_) + name);
  }
  Scheduler& scheduler_;
  SeparateMemory* memory_;
  DeviceId id_;
  int threads_;
  SimArena arena_, pinned_;
  std::unique_ptr<Stream> main_;
};

}  // namespace

SimPlatform::SimPlatform(const SchedulerOptions& options, bool separate_memory)
    : scheduler_(options) {
  watch_heap(&scheduler_);
  if (!separate_memory) return;
  memory_ = std::make_unique<SeparateMemory>(scheduler_);
  scheduler_.around_collectives = [m = memory_.get()](bool begins) {
    begins ? m->begin(-1, {}, {}) : m->end(-1, {});
  };
}
SimPlatform::~SimPlatform() { watch_heap(nullptr); }

std::unique_ptr<Host> SimPlatform::host() { return make_sim_host(scheduler_); }

std::unique_ptr<Device> SimPlatform::device(int index, int threads) {
  return std::make_unique<SimDevice>(scheduler_, memory_.get(), index, threads);
}

SimStream::SimStream(Scheduler& scheduler, SeparateMemory* memory, DeviceId device, int threads,
                     const std::string& name)
    : QueuedStream(device, threads),
      scheduler_(scheduler),
      memory_(memory),
      name_(name),
      queue_(scheduler.open_queue(device.index, name)) {}

SimStream::~SimStream() = default;  // what is queued may still run, as in CUDA

void SimStream::record(Event& event) {
  auto& e = dynamic_cast<SimEvent&>(event);
  scheduler_.call("record on " + name_);
  submitted(Kind::other, {}, "record");
  if (capturing()) {
    run({}, [] {});
    capture_record(e);
    return;
  }
  e.mark = std::make_shared<Mark>();
  Operation op;
  op.kind = Operation::Kind::record;
  op.what = scheduler_.name("record on " + name_);
  op.mark = e.mark;
  e.set_recorded();
  scheduler_.submit(queue_, std::move(op));
}

void SimStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const SimEvent&>(event);
  scheduler_.call("wait on " + name_);
  submitted(Kind::other, {}, "wait");
  if (scheduler_.drop_wait(device().index)) return;
  if (capturing()) {
    capture_wait(e);
    return;
  }
  e.require_recorded();
  if (e.mark == nullptr) return;
  Operation op;
  op.kind = Operation::Kind::wait;
  op.what = scheduler_.name("wait on " + name_);
  op.mark = e.mark;
  op.number = scheduler_.wait_number(device().index);
  scheduler_.submit(queue_, std::move(op));
}

void SimStream::copy(void* dst, const void* src, std::size_t bytes) {
  what_ = "copy";
  kind_ = Kind::copy;
  QueuedStream::copy(dst, src, bytes);
}

void SimStream::fill(void* dst, int byte, std::size_t bytes) {
  what_ = "fill";
  kind_ = Kind::fill;
  QueuedStream::fill(dst, byte, bytes);
}

void SimStream::launch(const KernelCall& call) {
  what_ = call.name;
  QueuedStream::launch(call);
}

void SimStream::submitted(Kind kind, const std::vector<Range>& ranges, const std::string& what) {
  if (memory_ != nullptr) memory_->submitted(kind, device().index, queue_, ranges, what);
}

void SimStream::push(OwnedTask task) {
  const std::string what = (what_.empty() ? "task" : what_) + " on " + name_;
  const Kind kind = std::exchange(kind_, Kind::kernel);
  what_.clear();
  scheduler_.call(what);
  Operation op;
  op.what = scheduler_.name(what);
  op.touches = ranges_of(task.touches);
  submitted(kind, op.touches, what);
  if (memory_ == nullptr) {
    op.run = std::move(task);
  } else {
    op.run = [m = memory_, d = device().index, ranges = op.touches, name = op.what,
              task = std::move(task)] {
      m->begin(d, ranges, *name);
      try {
        task();
      } catch (...) {
        m->end(d, ranges);
        throw;
      }
      m->end(d, ranges);
    };
  }
  scheduler_.submit(queue_, std::move(op));
}

void SimStream::synchronize() {
  require_running("synchronize");
  const bool fails = scheduler_.call("synchronize " + name_, true);
  if (memory_ != nullptr) memory_->synchronized(queue_);
  scheduler_.synchronize(queue_, !scheduler_.drop_sync(device().index));
  if (fails) throw DeviceError("injected failure of synchronize " + name_);
}

void SimStream::host_access(const Touches& touches) {
  if (memory_ != nullptr) memory_->host_access(ranges_of(touches));
  const std::string* what = scheduler_.name("host");
  for (const Range& r : ranges_of(touches)) scheduler_.host_access(r, what);
}

}  // namespace belfry::sim
