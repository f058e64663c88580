// SPDX-License-Identifier: MIT
// The frame of every function that the simulated libraries define.
#pragma once
#include <exception>

#include "belfry/core/error.h"
#include "belfry/tests/simcuda/state.h"

namespace belfry::sim {

enum class Waits : bool { no, yes };

// Runs body(state) as a call of the interface: counted, and failed when its turn has come. An
// exception of the scheduler never leaves it.
template <class F>
cudaError_t api(const char* name, F body, Waits waits = Waits::no) {
  SimCuda* const sim = SimCuda::active();
  if (sim == nullptr) return cudaErrorInitializationError;
  State& s = sim->state();
  if (s.scheduler.running())
    return s.refuse(cudaErrorNotPermitted,
                    std::string(name) + " is called by a host function of a stream");
  const auto done = [&s](cudaError_t e) {
    if (e != cudaSuccess) s.local().last = e;
    return e;
  };
  try {
    const bool fails = s.scheduler.call(name, waits == Waits::yes);
    if (s.broken != cudaSuccess) return done(s.broken);
    const cudaError_t result = body(s);
    return done(fails ? s.injected : result);
  } catch (const DeviceError&) {
    return done(s.scheduler.dead() ? cudaErrorLaunchTimeout : s.injected);
  } catch (const std::exception& e) {  // of an operation
    s.broken = cudaErrorLaunchFailure;
    return done(s.refuse(s.broken, std::string("an operation threw: ") + e.what()));
  }
}

}  // namespace belfry::sim
