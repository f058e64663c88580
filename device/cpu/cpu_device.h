// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/device/communicator.h"
#include "belfry/device/device.h"

namespace belfry {

enum class Executor : std::uint8_t {
  in_place,  // runs at submission, in the submitting thread: production
  lazy,      // a queue a stream, run only when the host waits: tests
  threaded,  // a queue and a thread a stream: tests, for a race detector
};

// A CPU device: streams by `executor`, kernels and library calls on `threads` host threads.
std::unique_ptr<Device> make_cpu_device(int index, int threads, Executor executor);

// Hardware threads of this machine, at least 1.
int host_cores();

// Persistent threads: run()'s index 0 is the calling thread, the others wait between calls.
std::unique_ptr<Host> make_thread_host();

}  // namespace belfry
