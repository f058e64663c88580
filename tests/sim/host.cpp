// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/host.h"

#include <algorithm>
#include <cstdlib>

#include "belfry/core/error.h"

namespace belfry::sim {
namespace {

class SimHost : public Host {
 public:
  explicit SimHost(Scheduler& scheduler) : scheduler_(scheduler) {}

  void run(int n, void (*body)(void*, int), void* arg) override {
    HostThreads& threads = scheduler_.threads();
    while (static_cast<int>(workers_.size()) < n - 1) workers_.push_back(threads.add());
    for (int i = 1; i < n; ++i)
      threads.start(workers_[static_cast<std::size_t>(i - 1)], [=] { body(arg, i); });
    scheduler_.preempt();
    std::exception_ptr first;
    try {
      body(arg, 0);
    } catch (...) {
      first = std::current_exception();
    }
    for (int i = 1; i < n; ++i) {
      auto& t = threads.at(workers_[static_cast<std::size_t>(i - 1)]);
      try {
        await_end(t);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
      if (t.error && !first) first = t.error;
    }
    if (first) std::rethrow_exception(first);
  }
  std::uint64_t spawn(void (*body)(void*), void* arg) override {
    const int t = scheduler_.threads().add();
    scheduler_.threads().start(t, [=] { body(arg); });
    return static_cast<std::uint64_t>(t);
  }
  void join(std::uint64_t thread) override {
    const int t = static_cast<int>(thread);
    await_end(scheduler_.threads().at(t));
    scheduler_.threads().end(t);
  }
  void wait(bool (*ready)(void*), void* arg) override {
    scheduler_.preempt();
    if (!ready(arg)) scheduler_.block_until(come_true(ready, arg, "wait"), "Host::wait");
  }
  bool wait_for(bool (*ready)(void*), void* arg, double seconds) override {
    scheduler_.preempt();
    return ready(arg) ||
           scheduler_.block_for(come_true(ready, arg, "wait_for"), "Host::wait_for", seconds);
  }
  void notify() noexcept override {
    ++notified_;
    scheduler_.threads().progressed();
  }
  void publish(const void* key, std::uint64_t phase) noexcept override {
    scheduler_.publish(key, phase);
  }
  void observe(const void* key, std::uint64_t phase) noexcept override {
    scheduler_.observe(key, phase);
  }

 private:
  // A real thread sleeps until somebody notifies, or its time is over.
  std::function<bool()> come_true(bool (*ready)(void*), void* arg, const char* what) {
    return [this, ready, arg, what, seen = notified_]() mutable {
      if (!ready(arg)) {
        seen = notified_;
        return false;
      }
      if (seen == notified_)
        scheduler_.report(std::string("what Host::") + what + " waits for came without a notify");
      return true;
    };
  }
  void await_end(HostThreads::Thread& t) {
    try {
      scheduler_.block_until([&t] { return !t.live; }, "the end of a thread");
    } catch (const DeviceError&) {  // a deadlock: the thread hears of it too, and ends
      while (t.live && scheduler_.threads().pass(false)) {
      }
      if (t.live) throw;
    }
    HostThreads::Thread& me = scheduler_.threads().me();
    sim::join(me.clock, t.clock);
    me.time = std::max(me.time, t.time);
  }
  Scheduler& scheduler_;
  std::uint64_t notified_ = 0;
  std::vector<int> workers_;
};

}  // namespace

std::unique_ptr<Host> make_sim_host(Scheduler& scheduler) {
  return std::make_unique<SimHost>(scheduler);
}

std::vector<Range> ranges_of(const Touches& touches) {
  std::vector<Range> out;
  for (const Touch& t : touches) {
    const auto lo = reinterpret_cast<std::uintptr_t>(t.data);
    if (t.bytes != 0) out.push_back({lo, lo + t.bytes, t.write});
  }
  return out;
}

std::uint64_t seeds(std::uint64_t usual) {
  const char* const fewer = std::getenv("BELFRY_SIM_SEEDS");
  return fewer == nullptr ? usual
                          : std::min<std::uint64_t>(usual, std::strtoull(fewer, nullptr, 10));
}

}  // namespace belfry::sim
