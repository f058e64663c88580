// SPDX-License-Identifier: MIT
#include <csignal>

#include "belfry/apps/cli/signals_internal.h"

namespace belfry {
namespace {

volatile std::sig_atomic_t pending_signal = 0;

void on_signal(int number) {
  if (pending_signal == 0) {
    pending_signal = number;
    return;
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

SignalWatch::SignalWatch() {
  pending_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGHUP, &action, &hang_up_);
  if (hang_up_.sa_handler == SIG_IGN) sigaction(SIGHUP, &hang_up_, nullptr);  // nohup
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &too_large_);
}

SignalWatch::~SignalWatch() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGHUP, &hang_up_, nullptr);
  sigaction(SIGXFSZ, &too_large_, nullptr);
}

int SignalWatch::pending() noexcept { return pending_signal; }

}  // namespace belfry
