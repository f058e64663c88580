// SPDX-License-Identifier: MIT
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "belfry/device/cpu/streams_internal.h"

namespace belfry {
namespace {

// A recorded point of a queue; outlives event and stream.
class Point {
 public:
  void pass() {
    const std::lock_guard lock(mutex_);
    passed_ = true;
    change_.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [this] { return passed_; });
  }
  bool passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  bool passed_ = false;
};

class ThreadedEvent : public CpuEvent {
 public:
  using CpuEvent::CpuEvent;
  bool done() const override { return recorded() && (point == nullptr || point->passed()); }
  void wait_host() const override {
    require_recorded();
    if (point != nullptr) point->await();
  }
  std::shared_ptr<Point> point;  // of the last record
};

class ThreadedStream : public QueuedStream {
 public:
  ThreadedStream(DeviceId device, int threads)
      : QueuedStream(device, threads), worker_([this, threads] { work(threads); }) {}
  ~ThreadedStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    change_.notify_all();
    worker_.join();
  }

  void record(Event& event) override {
    auto& e = dynamic_cast<ThreadedEvent&>(event);
    if (capturing()) {
      run({}, [] {});
      capture_record(e);
      return;
    }
    e.point = std::make_shared<Point>();
    run({}, [point = e.point] { point->pass(); });
    e.set_recorded();
  }

  void wait(const Event& event) override {
    const auto& e = dynamic_cast<const ThreadedEvent&>(event);
    if (capturing()) {
      capture_wait(e);
      return;
    }
    e.require_recorded();
    if (e.point != nullptr) run({}, [point = e.point] { point->await(); });
  }

  void synchronize() override {
    require_running("synchronize");
    std::unique_lock lock(mutex_);
    change_.wait(lock, [this] { return queue_.empty() && !running_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void host_access(const Touches&) override {}  // a race detector sees the access itself

 protected:
  void push(OwnedTask task) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    change_.notify_all();
  }

 private:
  void work(int threads) {
    bind_cpu_thread(threads);
    std::unique_lock lock(mutex_);
    for (;;) {
      change_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;  // stopped, and what was queued has run
      std::exception_ptr error;
      {
        const OwnedTask task = std::move(queue_.front());
        queue_.pop_front();
        running_ = true;
        lock.unlock();
        try {
          task();
        } catch (...) {
          error = std::current_exception();
        }
      }  // the task is gone before anybody is told that it has run
      lock.lock();
      running_ = false;
      if (error && !error_) error_ = error;
      change_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<OwnedTask> queue_;
  std::exception_ptr error_;
  bool running_ = false, stop_ = false;
  std::thread worker_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<Stream> make_threaded_stream(DeviceId device, int threads) {
  return std::make_unique<ThreadedStream>(device, threads);
}

std::unique_ptr<Event> make_threaded_event(bool external) {
  return std::make_unique<ThreadedEvent>(external);
}

}  // namespace belfry
