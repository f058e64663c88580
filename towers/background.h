// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "belfry/device/context.h"

namespace belfry {

// At most one job at a time on a thread of its own, for work that training need not wait for: a
// checkpoint being written. Used by the thread that owns the group; the job touches nothing of the
// group. What a job throws comes out of the next call here, once; the destructor logs it.
class BackgroundTask {
 public:
  explicit BackgroundTask(Context& context) : context_(context) {}
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  void start(std::function<void()> job);  // waits for the one before
  bool busy() const noexcept { return running_ && !ended_.load(); }
  void check();  // does not wait
  void wait();
  std::string wait_quietly() noexcept;  // the error's text, "" for none

 private:
  void join();

  Context& context_;
  std::function<void()> job_;
  std::exception_ptr error_;
  std::atomic<bool> ended_{false};
  bool running_ = false;
  std::uint64_t thread_ = 0;
};

}  // namespace belfry
