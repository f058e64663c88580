// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "belfry/core/error.h"
#include "belfry/device/cpu/streams_internal.h"

namespace belfry {
namespace {

// Below this many elements a second thread costs more than it saves (an OpenMP region is ~1.3 us).
constexpr std::size_t kSplit = 32768;

template <class F>
OwnedTask owned(const Touches& touches, F fn) {
  return {std::make_shared<F>(std::move(fn)), [](void* f) { (*static_cast<F*>(f))(); }, touches};
}

// A kernel call with its functor copied, for queues and graphs.
struct OwnedKernel {
  KernelCall call;
  std::vector<std::byte> functor;
  explicit OwnedKernel(const KernelCall& c) : call(c), functor(c.functor_bytes) {
    std::memcpy(functor.data(), c.functor, c.functor_bytes);
  }
};

Touches touches_of(const KernelCall& c) {
  Touches t;
  c.touches(c.functor, c.n, t);
  return t;
}

}  // namespace

void CpuEvent::require_recorded() const {
  if (!recorded_.load(std::memory_order_acquire))
    throw DeviceError(ErrorText{.what = "wait for an event that was never recorded",
                                .fix = "record it on a stream first"});
}

bool CpuEvent::done() const {
  if (!recorded_.load(std::memory_order_acquire)) return false;
  return stream_ == nullptr || stream_->reached(position_);
}

void CpuEvent::wait_host() const {
  require_recorded();
  if (stream_ != nullptr) stream_->run_to(position_);
}

void CpuStream::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  run(Touches().reads(src, bytes).writes(dst, bytes), [=] { std::memmove(dst, src, bytes); });
}

void CpuStream::fill(void* dst, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  run(Touches().writes(dst, bytes), [=] { std::memset(dst, byte, bytes); });
}

void CpuStream::begin_capture() {
  if (graph_ != nullptr) throw DeviceError("begin_capture: the stream is capturing already");
  graph_ = std::make_unique<CpuGraph>();
}

std::unique_ptr<Graph> CpuStream::end_capture() {
  if (graph_ == nullptr) throw DeviceError("end_capture: the stream is not capturing");
  return std::move(graph_);
}

// The task just captured stands for a record of `event`.
void CpuStream::capture_record(CpuEvent& event) {
  graph_->tasks.back().records = &event;
  if (!event.external()) event.recorded_.store(true, std::memory_order_release);
}

bool CpuStream::captured(const Touches& touches, const Task& task) {
  if (graph_ == nullptr) return false;
  graph_->tasks.push_back({task.clone(task.object), task.invoke, touches});
  return true;
}

void CpuStream::run_kernel(const KernelCall& call, int threads) {
  const std::size_t n = call.n;
  const bool split =
      threads > 1 && (call.rows ? n >= 2 * static_cast<std::size_t>(threads) : n >= kSplit);
  if (!split) {
    call.host(call.functor, 0, n);
    return;
  }
  const auto parts = static_cast<std::size_t>(threads);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int p = 0; p < threads; ++p) {
    const auto i = static_cast<std::size_t>(p);
    call.host(call.functor, n * i / parts, n * (i + 1) / parts);
  }
}

void InPlaceStream::record(Event& event) {
  auto& e = dynamic_cast<CpuEvent&>(event);
  if (capturing()) {
    run({}, [] {});
    capture_record(e);
    return;
  }
  e.recorded_.store(true, std::memory_order_release);
}

void InPlaceStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const CpuEvent&>(event);
  if (!capturing() || !e.external()) e.require_recorded();
  if (capturing()) run({}, [&e] { e.require_recorded(); });
}

void InPlaceStream::launch(const KernelCall& call) {
  if (!capturing()) {
    run_kernel(call, threads());
    return;
  }
  run(touches_of(call), [k = OwnedKernel(call), t = threads()]() mutable {
    k.call.functor = k.functor.data();
    run_kernel(k.call, t);
  });
}

void InPlaceStream::submit(const Touches& touches, Task task) {
  if (!captured(touches, task)) task.invoke(task.object);
}

void InPlaceStream::replay(Graph& graph) {
  for (const OwnedTask& t : dynamic_cast<CpuGraph&>(graph).tasks) {
    t();
    if (t.records != nullptr) t.records->recorded_.store(true, std::memory_order_release);
  }
}

LazyStream::~LazyStream() = default;  // what nobody waited for never runs

void LazyStream::push(OwnedTask task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  ++pushed_;
}

void LazyStream::record(Event& event) {
  auto& e = dynamic_cast<CpuEvent&>(event);
  if (capturing()) {
    run({}, [] {});
    capture_record(e);
    return;
  }
  const std::lock_guard lock(mutex_);
  e.stream_ = this;
  e.position_ = pushed_;
  e.recorded_.store(true, std::memory_order_release);
}

void LazyStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const CpuEvent&>(event);
  if (capturing()) {
    if (!e.external()) e.require_recorded();
    run({}, [&e] { e.wait_host(); });
    return;
  }
  e.require_recorded();
  LazyStream* other = e.stream_;
  if (other != nullptr && other != this) run({}, [other, at = e.position_] { other->run_to(at); });
}

void LazyStream::launch(const KernelCall& call) {
  run(touches_of(call), [k = OwnedKernel(call), t = threads()]() mutable {
    k.call.functor = k.functor.data();
    run_kernel(k.call, t);
  });
}

void LazyStream::submit(const Touches& touches, Task task) {
  if (!captured(touches, task)) push({task.clone(task.object), task.invoke, touches});
}

void LazyStream::replay(Graph& graph) {
  for (const OwnedTask& t : dynamic_cast<CpuGraph&>(graph).tasks) {
    push(t);
    if (t.records != nullptr) record(*t.records);
  }
}

void LazyStream::run_to(std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  while (ran_ < position && !queue_.empty()) {
    const OwnedTask task = std::move(queue_.front());
    queue_.pop_front();
    ++ran_;
    task();
  }
}

bool LazyStream::reached(std::uint64_t position) const {
  const std::lock_guard lock(mutex_);
  return ran_ >= position;
}

void LazyStream::synchronize() {
  const std::lock_guard lock(mutex_);
  run_to(pushed_);
}

void LazyStream::host_access(const Touches& touches) {
  const std::lock_guard lock(mutex_);
  for (const OwnedTask& task : queue_)
    for (const Touch& q : task.touches)
      for (const Touch& h : touches) {
        const auto *a = static_cast<const std::byte*>(q.data),
                   *b = static_cast<const std::byte*>(h.data);
        if ((q.write || h.write) && a < b + h.bytes && b < a + q.bytes)
          throw DeviceError(ErrorText{
              .what = "host access to memory that a stream still uses on " + name_of(device()),
              .fix = "synchronize the stream, or wait for an event after its last use"});
      }
}

}  // namespace belfry
