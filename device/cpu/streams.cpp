// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <string>

#include "belfry/core/error.h"
#include "belfry/device/cpu/streams_internal.h"

namespace belfry {
namespace {

// Below this many elements a second thread costs more than it saves (an OpenMP region is ~1.3 us).
constexpr std::size_t kSplit = 32768;

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
  if (!recorded())
    throw DeviceError(ErrorText{.what = "wait for an event that was never recorded",
                                .fix = "record it on a stream first"});
}

bool CpuEvent::done() const { return recorded(); }

void CpuEvent::wait_host() const { require_recorded(); }

void Stream::require_running(const char* what) const {
  if (capturing())
    throw DeviceError(ErrorText{.what = std::string(what) + " while a step is recorded, or a loop",
                                .found = "the host would wait for what does not run yet",
                                .fix = "make constant tensors before the step or loop and read "
                                       "results after it, or train without capture"});
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
  if (!event.external()) event.set_recorded();
}

// External events may be recorded later, by somebody else.
void CpuStream::capture_wait(const CpuEvent& event) {
  if (!event.external()) event.require_recorded();
  run({}, [] {});
  graph_->tasks.back().waits = &event;
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
  e.set_recorded();
}

void InPlaceStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const CpuEvent&>(event);
  if (capturing())
    capture_wait(e);
  else
    e.require_recorded();
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
    if (t.waits != nullptr) wait(*t.waits);
    if (t.records != nullptr) record(*t.records);
  }
}

void QueuedStream::launch(const KernelCall& call) {
  run(touches_of(call), [k = OwnedKernel(call), t = threads()]() mutable {
    k.call.functor = k.functor.data();
    run_kernel(k.call, t);
  });
}

void QueuedStream::submit(const Touches& touches, Task task) {
  if (!captured(touches, task)) push({task.clone(task.object), task.invoke, touches});
}

void QueuedStream::replay(Graph& graph) {
  for (const OwnedTask& t : dynamic_cast<CpuGraph&>(graph).tasks) {
    if (t.waits != nullptr) {
      wait(*t.waits);
    } else if (t.records != nullptr) {
      record(*t.records);
    } else {
      push(t);
    }
  }
}

}  // namespace belfry
