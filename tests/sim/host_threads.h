// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "belfry/tests/sim/shadow.h"

namespace belfry::sim {

// The host threads of a simulated program, of which exactly one runs at a time: a baton goes from
// one to the next where the scheduler says so, hence a seed gives the same run again.
class HostThreads {
 public:
  struct Thread {
    explicit Thread(int a) : agent(a) {}
    int agent;
    VectorClock clock;
    double time = 0;
    bool live = false;             // has something to do
    std::uint64_t blocked_at = 0;  // progress() when its condition was last false
    const char* waits_for = "";
    double wakes_at = -1;  // the end of its patience, in Scheduler's waited seconds; -1: endless
    std::function<void()> body;
    std::exception_ptr error;
    std::binary_semaphore go{0};
    std::thread os;
  };

  // `pick(n)` chooses one of n; agents are numbered by `next_agent`.
  HostThreads(std::function<std::uint64_t(std::uint64_t)> pick, std::function<int()> next_agent);
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  Thread& me() const { return *threads_[static_cast<std::size_t>(current_)]; }
  int add();  // a thread without work
  // Gives thread t something to do; it starts when it gets the baton, knowing what the caller
  // knows.
  void start(int t, std::function<void()> body);
  Thread& at(int t) { return *threads_[static_cast<std::size_t>(t)]; }
  void end(int t);  // joins the system's thread of one that is not live
  // Passes the baton to a live thread, with `only_unblocked` to one whose condition may have become
  // true; false when there is none. Returns when it comes back.
  bool pass(bool only_unblocked);
  void progressed() { ++progress_; }
  std::uint64_t progress() const { return progress_; }
  const std::vector<std::unique_ptr<Thread>>& all() const { return threads_; }

 private:
  int other(bool only_unblocked);
  void work(Thread& thread);
  std::function<std::uint64_t(std::uint64_t)> pick_;
  std::function<int()> next_agent_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint64_t progress_ = 1;
  int current_ = 0;
  bool quit_ = false;
};

}  // namespace belfry::sim
