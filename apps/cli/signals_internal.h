// SPDX-License-Identifier: MIT
#pragma once

namespace belfry {

// While it lives, the first SIGINT or SIGTERM only sets a flag, so that a run can save itself; a
// second one ends the process at once. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  static int pending() noexcept;  // the signal's number, 0 for none
};

}  // namespace belfry
