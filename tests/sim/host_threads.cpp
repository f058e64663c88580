// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/host_threads.h"

#include <utility>

namespace belfry::sim {

HostThreads::HostThreads(std::function<std::uint64_t(std::uint64_t)> pick,
                         std::function<int()> next_agent)
    : pick_(std::move(pick)), next_agent_(std::move(next_agent)) {
  threads_.push_back(std::make_unique<Thread>(next_agent_()));
  threads_[0]->live = true;
}

HostThreads::~HostThreads() {
  quit_ = true;
  for (auto& t : threads_)
    if (t->os.joinable()) {
      t->go.release();
      t->os.join();
    }
}

int HostThreads::add() {
  threads_.push_back(std::make_unique<Thread>(next_agent_()));
  const int t = static_cast<int>(threads_.size()) - 1;
  threads_.back()->os = std::thread([this, own = threads_.back().get()] { work(*own); });
  return t;
}

void HostThreads::start(int t, std::function<void()> body) {
  Thread& thread = at(t);
  join(thread.clock, me().clock);
  thread.time = std::max(thread.time, me().time);
  tick(thread.clock, thread.agent);
  tick(me().clock, me().agent);
  thread.body = std::move(body);
  thread.error = nullptr;
  thread.live = true;
  thread.blocked_at = 0;
  ++progress_;
}

void HostThreads::end(int t) {
  Thread& thread = at(t);
  if (!thread.os.joinable()) return;
  thread.body = nullptr;
  thread.go.release();
  thread.os.join();
}

// Given its own entry: threads_ may move while this thread starts.
void HostThreads::work(Thread& thread) {
  for (;;) {
    thread.go.acquire();
    if (quit_ || !thread.body) return;
    try {
      thread.body();
    } catch (...) {
      thread.error = std::current_exception();
    }
    thread.live = false;
    ++progress_;
    current_ = other(false);
    at(current_).go.release();  // the thread that started this one is live and waits
  }
}

int HostThreads::other(bool only_unblocked) {
  std::vector<int> choice;
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (static_cast<int>(i) != current_ && threads_[i]->live &&
        (!only_unblocked || threads_[i]->blocked_at != progress_))
      choice.push_back(static_cast<int>(i));
  return choice.empty() ? -1 : choice[pick_(choice.size())];
}

bool HostThreads::pass(bool only_unblocked) {
  const int next = other(only_unblocked);
  if (next < 0) return false;
  Thread& self = me();
  const int mine = current_;
  current_ = next;
  at(next).go.release();
  self.go.acquire();
  current_ = mine;
  return true;
}

}  // namespace belfry::sim
