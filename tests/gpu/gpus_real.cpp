// SPDX-License-Identifier: MIT
// This machine's GPUs, by the plug-in as programs load it.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/device/plugin.h"
#include "belfry/tests/cuda/gpus.h"

namespace belfry::sim {

struct Gpus::Machine {};

Gpus::Gpus(int gpus, const SchedulerOptions&, Precision precision)
    : gpus_(gpus), precision_(precision) {}
Gpus::~Gpus() = default;

SimCuda& Gpus::machine() { throw DeviceError("real GPUs: a test of simulated ones is linked"); }

std::vector<std::string> Gpus::faults() const { return {}; }

ContextOptions Gpus::options(std::vector<int> towers) const {
  const int there = std::max(1, cuda_module().gpus());
  if (towers.empty())
    for (int g = 0; g < gpus_; ++g) towers.push_back(g);
  ContextOptions o;
  o.towers.clear();
  for (const int gpu : towers)
    o.towers += (o.towers.empty() ? "cuda:" : ",") + std::to_string(gpu % there);
  o.seed = 3;
  o.precision = precision_;
  return o;
}

std::unique_ptr<Device> Gpus::device(int gpu) const {
  CudaModule& cuda = cuda_module();
  return cuda.platform({{gpu % std::max(1, cuda.gpus())}, precision_})->device(0, 1);
}

Outcome run_on_gpus(const Run& run, const SchedulerOptions& scheduler,
                    const std::vector<int>& towers, const std::string& transport) {
  Outcome out;
  const Gpus gpus(run.towers, scheduler);
  GroupOptions group = group_options(run);
  group.transport = transport;
  run_in(run, gpus.options(towers), group, out);
  return out;
}

std::uint64_t seeds(std::uint64_t usual) { return std::min<std::uint64_t>(usual, 3); }

}  // namespace belfry::sim
