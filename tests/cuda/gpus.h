// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/device/context.h"
#include "belfry/tests/sim/engine.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry::sim {

// The CUDA plug-in's own objects on a simulated machine with `gpus` GPUs. Lives as long as what is
// made with its options.
class Gpus {
 public:
  explicit Gpus(int gpus, const SchedulerOptions& options = {},
                Precision precision = Precision::f32);
  // A tower a GPU; or towers on the GPUs that are listed.
  ContextOptions options(std::vector<int> towers = {}) const;
  SimCuda& machine() { return machine_; }
  std::unique_ptr<Device> device(int gpu = 0) const;

 private:
  SimCuda machine_;
  int gpus_;
  Precision precision_;
};

// `run` on simulated GPUs; its reports have the leaks too.
Outcome run_on_gpus(const Run& run, const SchedulerOptions& options,
                    const std::vector<int>& towers = {}, const std::string& transport = "auto");

// Runs that GPUs know: variables are replicated.
std::vector<Run> gpu_runs(int towers);

}  // namespace belfry::sim
