// SPDX-License-Identifier: MIT
#pragma once
#include <csignal>

namespace belfry {

// While it lives, the first SIGINT, SIGTERM or SIGHUP (unless ignored, as by nohup) only sets a
// flag, so that a run can save itself; a second one ends the process at once. A file that passes
// the limit on sizes (ulimit -f) is an error of its writer instead of SIGXFSZ. The handlers before
// it come back after it. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  static int pending() noexcept;  // the signal's number, 0 for none

 private:
  struct sigaction interrupt_ {};  // the handlers before it
  struct sigaction terminate_ {};
  struct sigaction hang_up_ {};
  struct sigaction too_large_ {};
};

}  // namespace belfry
