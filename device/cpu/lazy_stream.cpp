// SPDX-License-Identifier: MIT
#include <mutex>

#include "belfry/core/error.h"
#include "belfry/device/cpu/lazy_stream_internal.h"

namespace belfry {
namespace {

// A lock for each stream would deadlock when two run each other.
std::recursive_mutex& lazy_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

void LazyQueue::push(OwnedTask task) {
  const Lock lock(lazy_mutex());
  queue_.push_back(std::move(task));
  ++pushed_;
}

void LazyQueue::run_to(std::uint64_t position) {
  const Lock lock(lazy_mutex());
  while (ran_ < position && !queue_.empty()) {
    const OwnedTask task = std::move(queue_.front());
    queue_.pop_front();
    ++ran_;
    task();
  }
}

void LazyQueue::run_all() {
  const Lock lock(lazy_mutex());
  run_to(pushed_);
}

bool LazyQueue::reached(std::uint64_t position) const {
  const Lock lock(lazy_mutex());
  return ran_ >= position;
}

std::uint64_t LazyQueue::pushed() const {
  const Lock lock(lazy_mutex());
  return pushed_;
}

void LazyQueue::drop() {
  const Lock lock(lazy_mutex());
  queue_.clear();
  ran_ = pushed_;
}

bool LazyQueue::uses(const Touches& touches) const {
  const Lock lock(lazy_mutex());
  for (const OwnedTask& task : queue_)
    for (const Touch& q : task.touches)
      for (const Touch& h : touches) {
        const auto *a = static_cast<const std::byte*>(q.data),
                   *b = static_cast<const std::byte*>(h.data);
        if ((q.write || h.write) && a < b + h.bytes && b < a + q.bytes) return true;
      }
  return false;
}

bool LazyEvent::done() const { return recorded() && (!queue_ || queue_->reached(position_)); }

void LazyEvent::wait_host() const {
  require_recorded();
  if (queue_) queue_->run_to(position_);
}

LazyStream::~LazyStream() { queue_->drop(); }

void LazyStream::push(OwnedTask task) { queue_->push(std::move(task)); }

void LazyStream::record(Event& event) {
  auto& e = dynamic_cast<LazyEvent&>(event);
  if (capturing()) {
    run({}, [] {});
    capture_record(e);
    return;
  }
  e.queue_ = queue_;
  e.position_ = queue_->pushed();
  e.set_recorded();
}

void LazyStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const LazyEvent&>(event);
  if (capturing()) {
    capture_wait(e);
    return;
  }
  e.require_recorded();
  if (e.queue_ && e.queue_ != queue_)
    run({}, [other = e.queue_, at = e.position_] { other->run_to(at); });
}

void LazyStream::synchronize() {
  require_running("synchronize");
  queue_->run_all();
}

void LazyStream::host_access(const Touches& touches) {
  if (queue_->uses(touches))
    throw DeviceError(
        ErrorText{.what = "host access to memory that a stream still uses on " + name_of(device()),
                  .fix = "synchronize the stream, or wait for an event after its last use"});
}

}  // namespace belfry
