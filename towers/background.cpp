// SPDX-License-Identifier: MIT
#include "belfry/towers/background.h"

#include <utility>

namespace belfry {

BackgroundTask::~BackgroundTask() {
  if (const std::string fault = wait_quietly(); !fault.empty()) context_.logger().warn("{}", fault);
}

void BackgroundTask::start(std::function<void()> job) {
  wait();
  job_ = std::move(job);
  ended_ = false;
  thread_ = context_.host().spawn(
      [](void* self) {
        auto* const task = static_cast<BackgroundTask*>(self);
        try {
          task->job_();
        } catch (...) {
          task->error_ = std::current_exception();
        }
        task->ended_ = true;
      },
      this);
  running_ = true;
}

void BackgroundTask::join() {
  if (!std::exchange(running_, false)) return;
  context_.host().join(thread_);
  job_ = nullptr;  // and the memory it holds
}

void BackgroundTask::check() {
  if (running_ && !ended_.load()) return;
  wait();
}

void BackgroundTask::wait() {
  join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string BackgroundTask::wait_quietly() noexcept {
  try {
    wait();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "a background job failed";
  }
  return "";
}

}  // namespace belfry
