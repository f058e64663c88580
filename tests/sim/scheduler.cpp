// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/scheduler.h"

#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/device/cpu/streams_internal.h"

namespace belfry::sim {
namespace {

// A GPU's order of magnitude: what matters is only that overlap and waiting can be told apart.
constexpr double kLaunch = 3e-6, kBytesPerSecond = 1e12;
constexpr std::uint32_t kPriorities = 1u << 20;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      rng_(options.seed * 0x9E3779B97F4A7C15ull + 1),
      threads_([this](std::uint64_t n) { return random(n); }, [this] { return agents_++; }) {
  // From "runs only when somebody waits" to "runs at submission nearly always".
  constexpr double kEager[] = {0, 0.2, 0.5, 0.8, 0.98}, kPreempt[] = {0, 0.01, 0.05, 0.3};
  eager_ = kEager[random(5)];
  preempt_ = kPreempt[random(4)];
  slow_device_ = static_cast<int>(random(12)) - 4;  // often none of the devices
}

const std::string* Scheduler::name(const std::string& text) { return &*names_.insert(text).first; }

int Scheduler::open_queue(int device, const std::string& queue_name) {
  queues_.push_back(
      {device, agents_++, queue_name, static_cast<std::uint32_t>(random(kPriorities))});
  return static_cast<int>(queues_.size()) - 1;
}

VectorClock& Scheduler::here() {
  return running_ >= 0 ? queues_[at(running_)].clock : threads_.me().clock;
}

int Scheduler::agent_here() const {
  return running_ >= 0 ? queues_[at(running_)].agent : threads_.me().agent;
}

void Scheduler::report(const std::string& text) {
  if (std::find(reports_.begin(), reports_.end(), text) == reports_.end()) reports_.push_back(text);
}

void Scheduler::check(const Range& range, int agent, std::uint32_t clock, const VectorClock& known,
                      const std::string* what) {
  for (const std::string& line : shadow_.touch(range, {agent, clock, what}, known)) report(line);
}

bool Scheduler::call(const std::string& what, bool waits) {
  const std::uint64_t number = ++calls_;  // other threads may call before this one goes on
  if (running_ >= 0) {
    report("an operation of a queue calls " + what);
    return false;
  }
  preempt();
  if (dead_) throw DeviceError("the simulated program is in a deadlock");
  if (number != options_.fail_call) return false;
  failed_call_ = what;
  if (waits) return true;
  throw DeviceError("injected failure of " + what);
}

void Scheduler::discard(int device) {
  for (Queue& q : queues_)
    if (q.device == device) {
      q.ops.clear();
      join(threads_.me().clock, q.clock);  // its memory goes after its streams have ended
    }
}

void Scheduler::preempt() {
  if (running_ < 0 && chance(preempt_)) threads_.pass(false);
}

void Scheduler::submit(int queue, Operation op) {
  HostThreads::Thread& host = threads_.me();
  op.host = host.clock;
  op.issued = host.time;
  queues_[at(queue)].ops.push_back(std::move(op));
  threads_.progressed();
  while (chance(eager_) && step()) {
  }
}

void Scheduler::host_access(const Range& range, const std::string* what) {
  const int agent = agent_here();
  const std::uint32_t clock = tick(here(), agent);
  check(range, agent, clock, here(), what);
}

void Scheduler::freed(std::uintptr_t lo, std::uintptr_t hi) {
  if (on_free) on_free(lo, hi);
  if (!shadow_.knows(lo, hi)) return;
  host_access({lo, hi, true}, name("free"));
  shadow_.forget(lo, hi);
}

void Scheduler::publish(const void* key, std::uint64_t phase) {
  Mark& m = published_[{key, phase}];
  join(m.clock, here());
  m.time = std::max(m.time, running_ >= 0 ? queues_[at(running_)].time : threads_.me().time);
  threads_.progressed();
}

void Scheduler::observe(const void* key, std::uint64_t phase) {
  const auto it = published_.find({key, phase});
  if (it == published_.end()) return;
  join(here(), it->second.clock);
  if (running_ < 0) threads_.me().time = std::max(threads_.me().time, it->second.time);
}

bool Scheduler::ready(const Queue& q) const {
  if (q.ops.empty() || q.meeting) return false;
  const Operation& op = q.ops.front();
  if (op.is_abandoned()) return true;
  if (op.kind == Operation::Kind::wait) return op.mark->done;
  if (op.kind != Operation::Kind::collective || op.rendezvous->aborted) return true;
  const auto busy = busy_.find(q.device);
  return busy == busy_.end() || busy->second == op.rendezvous.get();
}

bool Scheduler::step() {
  if (running_ >= 0) return false;
  int best = -1;
  const auto rank = [this](const Queue& q) {
    return q.device == slow_device_ ? 0 : q.priority + 1;  // one slow device runs when no other can
  };
  for (std::size_t q = 0; q < queues_.size(); ++q)
    if (ready(queues_[q]) && (best < 0 || rank(queues_[q]) > rank(queues_[at(best)])))
      best = static_cast<int>(q);
  if (best < 0) return false;
  // Priorities that change now and then find more than a choice anew at each step.
  if (random(8) == 0) queues_[at(best)].priority = static_cast<std::uint32_t>(random(kPriorities));
  execute(best);
  return true;
}

void Scheduler::execute(int queue) {
  Queue& q = queues_[at(queue)];
  Operation& op = q.ops.front();
  ++operations_;
  threads_.progressed();
  join(q.clock, op.host);
  q.time = std::max(q.time, op.issued);
  if (op.kind == Operation::Kind::wait) {
    if (covers(q.clock, op.mark->clock)) idle_waits_.insert({q.device, op.number});
    join(q.clock, op.mark->clock);
    q.time = std::max(q.time, op.mark->time);
  }
  const double begin = q.time;
  // Only what touches memory is a step: then a wait that orders nothing can be told.
  const std::uint32_t clock = op.touches.empty() ? 0 : tick(q.clock, q.agent);
  if (op.kind == Operation::Kind::collective) return meet(queue);
  for (const Range& r : op.touches) check(r, q.agent, clock, q.clock, op.what);
  if (op.kind == Operation::Kind::record) {
    op.mark->clock = q.clock;
    op.mark->time = q.time;
    op.mark->done = true;
  }
  if (op.kind == Operation::Kind::work) {
    q.time += kLaunch;
    for (const Range& r : op.touches) q.time += static_cast<double>(r.hi - r.lo) / kBytesPerSecond;
    running_ = queue;
    bind_cpu_thread(1);  // whichever host thread this is: the bits must not depend on it
    try {
      if (op.run) op.run();
    } catch (...) {
      if (!q.error) q.error = std::current_exception();
    }
    running_ = -1;
  }
  finish(queue, begin);
}

void Scheduler::finish(int queue, double begin) {
  Queue& q = queues_[at(queue)];
  running_ = queue;  // what the operation owned is freed in the queue's order
  {
    const Operation op = std::move(q.ops.front());
    q.ops.pop_front();
    if (options_.trace && op.what != nullptr)
      trace_.push_back({*op.what, q.name, begin, q.time, op.issued});
  }
  running_ = -1;
}

void Scheduler::meet(int queue) {
  Queue& q = queues_[at(queue)];
  const std::shared_ptr<Rendezvous> r = q.ops.front().rendezvous;
  if (r->aborted || q.ops.front().is_abandoned()) {
    if (r->aborted && !q.error) q.error = r->error;
    return finish(queue, q.time);
  }
  q.meeting = true;
  busy_[q.device] = r.get();
  r->here.push_back(queue);
  r->time = std::max(r->time, q.time);
  join(r->clock, q.clock);
  if (r->here.size() < r->members) return;
  running_ = queue;
  if (around_collectives) around_collectives(true);
  if (r->run) r->run();
  if (around_collectives) around_collectives(false);
  running_ = -1;
  for (const int k : std::exchange(r->here, {})) {
    Queue& member = queues_[at(k)];
    member.meeting = false;
    busy_.erase(member.device);
    // A member knows that all have arrived and what it has done itself, not what the others have:
    // their ends of the movement may still be under way.
    join(member.clock, r->clock);
    const Operation& op = member.ops.front();
    const std::uint32_t clock = op.touches.empty() ? 0 : tick(member.clock, member.agent);
    for (const Range& range : op.touches) check(range, member.agent, clock, member.clock, op.what);
    member.time = r->time + r->seconds;
    finish(k, r->time);
  }
}

void Scheduler::abort(Rendezvous& r, std::exception_ptr error) {
  r.aborted = true;
  r.error = std::move(error);
  threads_.progressed();
  for (const int k : r.here) {  // those who wait in it go on, with the error
    Queue& member = queues_[at(k)];
    member.meeting = false;
    busy_.erase(member.device);
    if (!member.error) member.error = r.error;
    finish(k, member.time);
  }
  r.here.clear();
}

void Scheduler::leave(Rendezvous& r) {
  threads_.progressed();
  std::erase_if(r.here, [this](int k) {
    Queue& member = queues_[at(k)];
    if (!member.ops.front().is_abandoned()) return false;
    member.meeting = false;
    busy_.erase(member.device);
    finish(k, member.time);
    return true;
  });
}

bool Scheduler::progress() {
  if (step()) return true;
  if (running_ >= 0) return false;
  threads_.me().blocked_at = 0;  // this thread does not wait: others may hand back to it
  return threads_.pass(true);
}

void Scheduler::deadlock(const char* what) {
  std::string text = std::string("deadlock in ") + what + "; blocked:";
  for (const Queue& q : queues_)
    if (!q.ops.empty())
      text +=
          " [" + q.name + ": " + (q.ops.front().what != nullptr ? *q.ops.front().what : "?") + "]";
  for (const auto& t : threads_.all())
    if (t->live) text += std::string(" [host thread: ") + t->waits_for + "]";
  report(text);
  dead_ = true;
  threads_.progressed();
}

void Scheduler::block_until(const std::function<bool()>& ready_now, const char* what) {
  HostThreads::Thread& self = threads_.me();
  self.waits_for = what;
  while (!ready_now()) {
    if (dead_) throw DeviceError(std::string("deadlock in ") + what);
    if (step()) continue;
    self.blocked_at = threads_.progress();
    if (threads_.pass(true) || wake_next()) continue;
    deadlock(what);
  }
}

bool Scheduler::block_for(const std::function<bool()>& ready_now, const char* what,
                          double seconds) {
  HostThreads::Thread& self = threads_.me();
  const double end = waited_ + seconds;
  self.wakes_at = end;
  bool is_ready = false;
  block_until([&] { return (is_ready = ready_now()) || waited_ >= end || dead_; }, what);
  self.wakes_at = -1;
  return is_ready;
}

bool Scheduler::wake_next() {
  constexpr int kMostWakes = 100000;  // somebody who only ever looks again is a deadlock as well
  HostThreads::Thread* next = nullptr;
  for (const auto& t : threads_.all())
    if (t->live && t->wakes_at >= 0 && (next == nullptr || t->wakes_at < next->wakes_at))
      next = t.get();
  if (dead_ || next == nullptr || ++wakes_ > kMostWakes) return false;
  waited_ = std::max(waited_, next->wakes_at);
  threads_.progressed();
  return true;
}

void Scheduler::synchronize(int queue, bool ordered, bool counted) {
  const std::uint64_t number = syncs_[queues_[at(queue)].device];
  block_until([this, queue] { return idle(queue); }, "synchronize");
  Queue& q = queues_[at(queue)];
  if (ordered && counted && covers(threads_.me().clock, q.clock))
    idle_syncs_.insert({q.device, number});
  if (ordered) join(threads_.me().clock, q.clock);
  threads_.me().time = std::max(threads_.me().time, q.time);
  if (q.error) std::rethrow_exception(std::exchange(q.error, nullptr));
}

void Scheduler::wait_host(const Mark& mark) {
  block_until([&mark] { return mark.done; }, "wait for an event");
  join(threads_.me().clock, mark.clock);
  threads_.me().time = std::max(threads_.me().time, mark.time);
}

double Scheduler::critical_path() const {
  double t = 0;
  for (const Queue& q : queues_) t = std::max(t, q.time);
  return t;
}

}  // namespace belfry::sim
