// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "belfry/data/dataset.h"
#include "belfry/device/communicator.h"

namespace belfry {

// Opens a data set on a thread of its own; get() waits for it and throws what it has thrown. The
// destructor waits, too.
class Opening {
 public:
  using Open = std::function<std::shared_ptr<const Dataset>()>;
  Opening(Host& host, Open open) : host_(host), open_(std::move(open)) {
    const auto work = [](void* self) { static_cast<Opening*>(self)->work(); };
    thread_ = host_.spawn(work, this);
  }
  ~Opening() { wait(); }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  std::shared_ptr<const Dataset> get() {
    wait();
    if (error_) std::rethrow_exception(error_);
    return data_;
  }

 private:
  void work() noexcept {
    try {
      data_ = open_();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void wait() {
    if (!std::exchange(joined_, true)) host_.join(thread_);
  }

  Host& host_;
  Open open_;
  std::uint64_t thread_ = 0;
  bool joined_ = false;
  std::shared_ptr<const Dataset> data_;
  std::exception_ptr error_;
};

}  // namespace belfry
