// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belfry/tests/sim/host_threads.h"
#include "belfry/tests/sim/operation.h"

namespace belfry::sim {

// Runs queues of operations in an adversarial order and finds what nothing orders. A front (CPU
// streams, a CUDA runtime) turns its calls into operations. Enqueueing runs nothing or a few heads,
// as the seed says; a blocking call runs heads, or lets another host thread go on, until its
// condition holds. When nothing can go on, that is a deadlock: reported with all blocked heads, and
// every call from then on throws DeviceError. Exactly one host thread runs at a time.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  const std::string* name(const std::string& text);  // kept as long as the scheduler
  int open_queue(int device, const std::string& name);
  void submit(int queue, Operation op);
  void discard(int device);  // what is queued there never runs: the device goes
  bool idle(int queue) const { return queues_[static_cast<std::size_t>(queue)].ops.empty(); }
  // Waits until the queue is empty; throws the first exception of its operations since the last.
  // Without `ordered` the host then knows nothing of what has run: a dropped wait of the host that
  // is safe to execute. `counted`: one that is listed when it orders nothing new.
  void synchronize(int queue, bool ordered, bool counted = true);
  void wait_host(const Mark& mark);
  void count_host_wait() { ++host_waits_; }  // for an event
  std::uint64_t host_waits() const { return host_waits_; }
  void abort(Rendezvous& rendezvous, std::exception_ptr error);
  void leave(Rendezvous& rendezvous);  // members whose operation is abandoned go on without it

  // The start of every call of a front: counts it, may fail it, may let another thread go first.
  // True when the call is to fail but has to wait first: a failed synchronize leaves nothing
  // behind.
  bool call(const std::string& what, bool waits = false);
  const std::string& failed_call() const { return failed_call_; }
  std::uint64_t wait_number(int device) const { return waits_.at(device); }
  bool drop_wait(int device) { return count(waits_, device, options_.drop_wait); }
  bool drop_sync(int device) { return count(syncs_, device, options_.drop_sync); }
  void host_access(const Range& range, const std::string* what);
  void freed(std::uintptr_t lo, std::uintptr_t hi);  // memory goes back to the heap
  std::function<void(std::uintptr_t, std::uintptr_t)> on_free;
  std::function<void(bool begins)> around_collectives;  // while one moves its data
  void publish(const void* key, std::uint64_t phase);
  void observe(const void* key, std::uint64_t phase);
  void block_until(const std::function<bool()>& ready, const char* what);
  // For at most `seconds`; what ready() said last. Seconds pass only while nothing else can go on.
  bool block_for(const std::function<bool()>& ready, const char* what, double seconds);
  void preempt();
  bool progress();  // runs one head or lets another thread go on; false when nothing can
  bool running() const { return running_ >= 0; }  // inside of an operation
  bool dead() const { return dead_; }             // after a deadlock
  HostThreads& threads() { return threads_; }
  void report(const std::string& text);

  const std::vector<std::string>& reports() const { return reports_; }
  std::uint64_t calls() const { return calls_; }
  // By device.
  const std::map<int, std::uint64_t>& waits() const { return waits_; }
  const std::map<int, std::uint64_t>& syncs() const { return syncs_; }
  // Those that ordered nothing that was not ordered already.
  const std::set<std::pair<int, std::uint64_t>>& idle_waits() const { return idle_waits_; }
  const std::set<std::pair<int, std::uint64_t>>& idle_syncs() const { return idle_syncs_; }
  std::uint64_t operations() const { return operations_; }
  double critical_path() const;
  const std::vector<Traced>& trace() const { return trace_; }
  std::uint64_t random(std::uint64_t below) { return rng_() % below; }

 private:
  static bool count(std::map<int, std::uint64_t>& counts, int device, const Nth& nth) {
    return ++counts[device] == nth.number && device == nth.device;
  }
  bool chance(double p) { return static_cast<double>(rng_() >> 11) * 0x1p-53 < p; }
  bool ready(const Queue& q) const;
  bool step();
  void execute(int queue);
  void meet(int queue);
  void finish(int queue, double begin);
  void check(const Range& range, int agent, std::uint32_t clock, const VectorClock& known,
             const std::string* what);
  void deadlock(const char* what);
  bool wake_next();     // of those who wait for a time; false: there are none
  VectorClock& here();  // of the agent that is running: an operation's queue or the host thread
  int agent_here() const;

  SchedulerOptions options_;
  std::mt19937_64 rng_;
  double eager_, preempt_;
  int slow_device_;
  int agents_ = 0;
  std::set<std::string> names_;
  std::vector<Queue> queues_;
  std::map<int, Rendezvous*> busy_;  // by device: the collective that occupies it
  HostThreads threads_;
  Shadow shadow_;
  std::map<std::pair<const void*, std::uint64_t>, Mark> published_;
  std::vector<std::string> reports_;
  std::vector<Traced> trace_;
  std::uint64_t calls_ = 0, operations_ = 0, host_waits_ = 0;
  std::map<int, std::uint64_t> waits_, syncs_;
  std::set<std::pair<int, std::uint64_t>> idle_waits_, idle_syncs_;
  std::string failed_call_;
  double waited_ = 0;             // seconds that host threads have waited for in vain, all told
  int wakes_ = 0, running_ = -1;  // running_: queue whose operation runs now
  bool dead_ = false;
};

}  // namespace belfry::sim
