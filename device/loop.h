// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "belfry/device/device.h"

namespace belfry {

struct LoopOptions {
  int parallel_iterations = 10;  // at most so many run at the same time; at least 1
  bool carried = false;          // iterations use what earlier ones wrote: one by one, in order
  std::string name{};            // for messages: "loop 'name'"
};

using LoopBody = std::function<void(std::int64_t iteration)>;

// Iterations 0..n-1 of `body` on `device`, recorded once. The constructor calls body(i) for each i,
// in order; what it puts on device.main() does not run, and says by itself what it reads and
// writes. So does run(), without calling the body again: results are the same for every
// parallel_iterations. Tensors that the body makes are the iteration's own.
// Throws ConfigError for parallel_iterations or n out of range, and DeviceError, with nothing run,
// when an iteration touches what another one writes (both are named, with the range) unless
// `carried`; when the body waits for the device, uses events, or contains a loop. What a body or an
// operation throws names loop and iteration; a foreign exception comes nested in a TowerError.
// Owns its memory and streams; must outlive what is recorded of its run(). One host thread.
class Loop {
 public:
  Loop(Device& device, std::int64_t n, const LoopOptions& options, const LoopBody& body);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Puts all iterations on device.main(), behind what is there: on a CPU they share the device's
  // threads, one thread each; on a GPU its streams, from the second run on as a graph. Errors of an
  // iteration come out where those of the stream do; on a CPU that of the lowest iteration. Throws
  // DeviceError, with nothing run, where it would write what an open pass of this thread has used:
  // its backward may need that. The first run of a loop recorded in a pass belongs to it.
  void run();

  int lanes() const noexcept;               // how many iterations run at the same time
  std::size_t operations() const noexcept;  // of all iterations

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A Loop that runs once. On a GPU it waits for its end; there a step that is recorded needs a Loop.
void parallel_for(Device& device, std::int64_t n, const LoopOptions& options, const LoopBody& body);

}  // namespace belfry
