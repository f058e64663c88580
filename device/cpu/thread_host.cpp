// SPDX-License-Identifier: MIT
#include <omp.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"

namespace belfry {
namespace {

using SteadyClock = std::chrono::steady_clock;
// Long enough to bridge the gap between two steps, short enough not to starve a neighbour.
constexpr auto kSpin = std::chrono::microseconds(50);

// Background threads (loaders) never spin: with towers = cores each spin would come out of a tower.
thread_local bool background = false;

void pause_cpu() {
#if defined(__SSE2__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// The caller's thread serves as tower 0; its floating-point mode and OpenMP setting are given back.
class CallerState {
 public:
  CallerState() : threads_(omp_get_max_threads()) {
#if defined(__SSE2__)
    csr_ = _mm_getcsr();
#endif
  }
  ~CallerState() {
    omp_set_num_threads(threads_);
#if defined(__SSE2__)
    _mm_setcsr(csr_);
#endif
  }
  CallerState(const CallerState&) = delete;
  CallerState& operator=(const CallerState&) = delete;

 private:
  int threads_;
  unsigned csr_ = 0;
};

template <class F>
std::thread started(F&& body) {
  try {
    return std::thread(std::forward<F>(body));
  } catch (const std::system_error& e) {
    throw DeviceError(ErrorText{.what = "a thread of the host cannot be started",
                                .found = e.what(),
                                .fix = "use fewer towers, or raise the limits on processes and "
                                       "memory (ulimit -u, ulimit -v)"});
  }
}

class ThreadHost : public Host {
 public:
  ~ThreadHost() override {
    stop_.store(true);
    notify();
    for (std::thread& t : workers_) t.join();
    for (auto& [id, t] : spawned_) t.join();
  }

  void run(int n, void (*body)(void*, int), void* arg) override {
    if (running_.exchange(true))
      throw DeviceError(ErrorText{
          .what = "the context's towers are at work",
          .found = "a call inside of a step, an evaluation or map_devices(), or by a second thread",
          .expected = "one at a time",
          .fix = "call it after the other, or make a Context for each thread"});
    struct Leave {
      std::atomic<bool>& flag;
      ~Leave() { flag.store(false); }
    } leave{running_};
    const CallerState state;
    workers_.reserve(static_cast<std::size_t>(n));
    while (static_cast<int>(workers_.size()) < n - 1) {
      const int index = static_cast<int>(workers_.size()) + 1;
      workers_.push_back(
          started([this, index, seen = generation_.load()]() mutable { work(index, seen); }));
    }
    errors_.assign(static_cast<std::size_t>(n), nullptr);
    body_ = body;
    arg_ = arg;
    n_ = n;
    pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    notify();
    guarded(0);
    Host::wait([this] { return pending_.load(std::memory_order_acquire) == 0; });
    for (const std::exception_ptr& e : errors_)
      if (e) std::rethrow_exception(e);
  }

  std::uint64_t spawn(void (*body)(void*), void* arg) override {
    const std::lock_guard lock(spawn_mutex_);
    const std::uint64_t id = next_++;
    spawned_.emplace(id, started([body, arg] {
                       background = true;
                       body(arg);
                     }));
    return id;
  }

  void join(std::uint64_t thread) override {
    if (std::thread t = taken(thread); t.joinable()) t.join();
  }

  void abandon(std::uint64_t thread) override {
    if (std::thread t = taken(thread); t.joinable()) t.detach();
  }

  void wait(bool (*ready)(void*), void* arg) override {
    if (spin(ready, arg)) return;
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);  // seq_cst, as the read in notify(): one of the two sees the other
    while (!ready(arg)) sleep_.wait(lock);
    sleepers_.fetch_sub(1);
  }

  bool wait_for(bool (*ready)(void*), void* arg, double seconds) override {
    if (spin(ready, arg)) return true;
    const auto until = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                                std::chrono::duration<double>(seconds));
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    bool done = false;
    while (!(done = ready(arg)) && sleep_.wait_until(lock, until) != std::cv_status::timeout) {
    }
    done = done || ready(arg);
    sleepers_.fetch_sub(1);
    return done;
  }

  void notify() noexcept override {
    if (sleepers_.fetch_add(0) == 0)
      return;  // a read-modify-write orders the caller's store before it
    const std::lock_guard lock(mutex_);
    sleep_.notify_all();
  }

 private:
  static bool spin(bool (*ready)(void*), void* arg) {
    if (background) return false;
    const auto until = SteadyClock::now() + kSpin;
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready(arg)) return true;
        pause_cpu();
      }
    } while (SteadyClock::now() < until);
    return false;
  }

  std::thread taken(std::uint64_t thread) {
    const std::lock_guard lock(spawn_mutex_);
    const auto it = spawned_.find(thread);
    if (it == spawned_.end()) return {};
    std::thread t = std::move(it->second);
    spawned_.erase(it);
    return t;
  }

  void guarded(int index) {
    try {
      body_(arg_, index);
    } catch (...) {
      errors_[static_cast<std::size_t>(index)] = std::current_exception();
    }
  }

  void work(int index, std::uint64_t seen) {
    for (;;) {
      Host::wait(
          [&] { return stop_.load() || generation_.load(std::memory_order_acquire) != seen; });
      if (stop_.load()) return;
      seen = generation_.load(std::memory_order_acquire);
      if (index < n_) guarded(index);
      pending_.fetch_sub(1, std::memory_order_acq_rel);
      notify();
    }
  }

  std::mutex mutex_, spawn_mutex_;
  std::condition_variable sleep_;
  std::atomic<int> sleepers_{0};
  std::vector<std::thread> workers_;
  std::map<std::uint64_t, std::thread> spawned_;
  std::uint64_t next_ = 1;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false}, running_{false};
  void (*body_)(void*, int) = nullptr;
  void* arg_ = nullptr;
  int n_ = 0;
  std::vector<std::exception_ptr> errors_;
};

}  // namespace

int host_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::unique_ptr<Host> make_thread_host() { return std::make_unique<ThreadHost>(); }

}  // namespace belfry
