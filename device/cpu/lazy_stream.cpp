// SPDX-License-Identifier: MIT
#include <mutex>

#include "belfry/core/error.h"
#include "belfry/device/cpu/lazy_stream_internal.h"

namespace belfry {
namespace {

// Lazy streams of several towers run each other's operations: a lock each would deadlock.
std::recursive_mutex& lazy_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

bool LazyEvent::done() const {
  return recorded() && (stream_ == nullptr || stream_->reached(position_));
}

void LazyEvent::wait_host() const {
  require_recorded();
  if (stream_ != nullptr) stream_->run_to(position_);
}

LazyStream::~LazyStream() = default;  // what nobody waited for never runs

void LazyStream::push(OwnedTask task) {
  const Lock lock(lazy_mutex());
  queue_.push_back(std::move(task));
  ++pushed_;
}

void LazyStream::record(Event& event) {
  auto& e = dynamic_cast<LazyEvent&>(event);
  if (capturing()) {
    run({}, [] {});
    capture_record(e);
    return;
  }
  const Lock lock(lazy_mutex());
  e.stream_ = this;
  e.position_ = pushed_;
  e.set_recorded();
}

void LazyStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const LazyEvent&>(event);
  if (capturing()) {
    if (!e.external()) e.require_recorded();
    run({}, [&e] { e.wait_host(); });
    return;
  }
  e.require_recorded();
  LazyStream* other = e.stream_;
  if (other != nullptr && other != this) run({}, [other, at = e.position_] { other->run_to(at); });
}

void LazyStream::run_to(std::uint64_t position) {
  const Lock lock(lazy_mutex());
  while (ran_ < position && !queue_.empty()) {
    const OwnedTask task = std::move(queue_.front());
    queue_.pop_front();
    ++ran_;
    task();
  }
}

bool LazyStream::reached(std::uint64_t position) const {
  const Lock lock(lazy_mutex());
  return ran_ >= position;
}

void LazyStream::synchronize() {
  const Lock lock(lazy_mutex());
  run_to(pushed_);
}

void LazyStream::host_access(const Touches& touches) {
  const Lock lock(lazy_mutex());
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
