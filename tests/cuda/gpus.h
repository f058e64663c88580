// SPDX-License-Identifier: MIT
// GPUs for tests, of the kind that is linked: a simulated machine with the plug-in's own objects
// (gpus.cpp), or this machine's with the plug-in itself (tests/gpu/gpus_real.cpp).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/device/context.h"
#include "belfry/tests/sim/engine.h"

namespace belfry::sim {

class SimCuda;

// `gpus` of them; where there are fewer real ones, they stand for several. Lives as long as what is
// made with its options.
class Gpus {
 public:
  explicit Gpus(int gpus, const SchedulerOptions& options = {},
                Precision precision = Precision::f32);
  ~Gpus();
  // A tower a GPU; or towers on the GPUs that are listed.
  ContextOptions options(std::vector<int> towers = {}) const;
  std::unique_ptr<Device> device(int gpu = 0) const;
  // What no call has shown: the simulator's reports, and what is left alive. None of real ones.
  std::vector<std::string> faults() const;
  SimCuda& machine();  // only of simulated ones

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
  int gpus_;
  Precision precision_;
};

// `run` on GPUs, a tower each unless listed; its reports have the faults.
Outcome run_on_gpus(const Run& run, const SchedulerOptions& options,
                    const std::vector<int>& towers = {}, const std::string& transport = "auto");

// Orders of execution to try: `usual`, or fewer.
std::uint64_t seeds(std::uint64_t usual);

// Runs that GPUs know: variables are replicated.
inline std::vector<Run> gpu_runs(int towers) {
  std::vector<Run> out;
  for (Run& run : all_runs(towers))
    if (run.way == Way::replicated) out.push_back(std::move(run));
  return out;
}

}  // namespace belfry::sim
