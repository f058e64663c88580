// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <deque>
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
#include "belfry/tests/sim/shadow.h"

namespace belfry::sim {

// One record of an event: what had been done by then.
struct Mark {
  bool done = false;
  VectorClock clock;
  double time = 0;
};

// A collective: begins when every member's queue has reached it, ends for all at once.
struct Rendezvous {
  std::size_t members = 0;
  std::function<void()> run;  // set by the front when all have posted
  bool aborted = false;       // members go on with `error`
  std::exception_ptr error;
  double seconds = 0;
  // Of the scheduler.
  std::vector<int> here;
  VectorClock clock;
  double time = 0;
};

struct Operation {
  enum class Kind : std::uint8_t { work, record, wait, collective } kind = Kind::work;
  const std::string* what = nullptr;
  std::vector<Range> touches{};
  std::function<void()> run{};
  std::shared_ptr<Mark> mark{};              // record, wait
  std::shared_ptr<Rendezvous> rendezvous{};  // collective
  VectorClock host{};                        // of the scheduler: what its issuer knew
  double issued = 0;
};

struct SchedulerOptions {
  std::uint64_t seed = 1;
  std::uint64_t fail_call = 0;  // the n-th call of a front throws DeviceError
  std::uint64_t drop_wait = 0;  // the n-th wait of a stream does nothing
  std::uint64_t drop_sync = 0;  // the n-th synchronize does nothing
  bool trace = false;
};

struct Traced {
  std::string what, queue;
  double begin, end;
};

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
  bool idle(int queue) const { return queues_[static_cast<std::size_t>(queue)].ops.empty(); }
  // Waits until the queue is empty; throws the first exception of its operations since the last.
  void synchronize(int queue);
  void wait_host(const Mark& mark);
  void abort(Rendezvous& rendezvous, std::exception_ptr error);

  // The start of every call of a front: counts it, may fail it, may let another thread go first.
  void call(const std::string& what);
  bool drop_wait() { return ++waits_ == options_.drop_wait; }
  bool drop_sync() { return ++syncs_ == options_.drop_sync; }
  void host_access(const Range& range, const std::string* what);
  void freed(std::uintptr_t lo, std::uintptr_t hi);  // memory goes back to the heap
  void publish(const void* key, std::uint64_t phase);
  void observe(const void* key, std::uint64_t phase);
  void block_until(const std::function<bool()>& ready, const char* what);
  void preempt();
  HostThreads& threads() { return threads_; }
  void report(const std::string& text);

  const std::vector<std::string>& reports() const { return reports_; }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t waits() const { return waits_; }
  std::uint64_t syncs() const { return syncs_; }
  std::uint64_t operations() const { return operations_; }
  double critical_path() const;
  const std::vector<Traced>& trace() const { return trace_; }
  std::uint64_t random(std::uint64_t below) { return rng_() % below; }

 private:
  struct Queue {
    int device, agent;
    std::string name;
    std::uint32_t priority;
    VectorClock clock{};
    double time = 0;
    std::deque<Operation> ops{};
    bool meeting = false;
    std::exception_ptr error{};
  };
  bool chance(double p) { return static_cast<double>(rng_() >> 11) * 0x1p-53 < p; }
  bool ready(const Queue& q) const;
  bool step();
  void execute(int queue);
  void meet(int queue);
  void finish(int queue, double begin);
  void check(const Range& range, int agent, std::uint32_t clock, const VectorClock& known,
             const std::string* what);
  void deadlock(const char* what);
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
  std::uint64_t calls_ = 0, waits_ = 0, syncs_ = 0, operations_ = 0;
  int running_ = -1;  // queue whose operation runs now
  bool dead_ = false;
};

}  // namespace belfry::sim
