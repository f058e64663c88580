// SPDX-License-Identifier: MIT
#include "belfry/tests/cuda/gpus.h"

#include <set>

#include "belfry/core/error.h"
#include "belfry/device/plugin.h"
#include "belfry/tests/simcuda/simcuda.h"
#include "belfry/version.h"

namespace belfry::sim {
namespace {

CudaModule& module() {
  const char* reason = "";
  CudaModule* m = belfry_cuda_entry(kCudaAbi, kVersion, &reason);
  if (m == nullptr) throw DeviceError(std::string("the plug-in: ") + reason);
  return *m;
}

// The plug-in's devices, with the scheduler's host threads.
class GpuPlatform : public Platform {
 public:
  GpuPlatform(SimCuda& machine, std::shared_ptr<Platform> gpus)
      : machine_(machine), gpus_(std::move(gpus)) {}
  std::unique_ptr<Host> host() override { return machine_.host(); }
  std::unique_ptr<Device> device(int index, int threads) override {
    return gpus_->device(index, threads);
  }
  const void* extension(std::string_view name) const override { return gpus_->extension(name); }

 private:
  SimCuda& machine_;
  std::shared_ptr<Platform> gpus_;
};

}  // namespace

struct Gpus::Machine {
  SimCuda sim;
};

Gpus::Gpus(int gpus, const SchedulerOptions& options, Precision precision)
    : machine_(new Machine{SimCuda(gpus, options)}), gpus_(gpus), precision_(precision) {}
Gpus::~Gpus() = default;

SimCuda& Gpus::machine() { return machine_->sim; }

std::vector<std::string> Gpus::faults() const {
  std::vector<std::string> out = machine_->sim.reports();
  if (const std::string leaks = machine_->sim.leaks(); !leaks.empty())
    out.push_back("left alive: " + leaks);
  return out;
}

ContextOptions Gpus::options(std::vector<int> towers) const {
  ContextOptions o;
  if (towers.empty())
    for (int g = 0; g < gpus_; ++g) towers.push_back(g);
  o.towers = "cuda-sim:" + std::to_string(towers.size());
  o.seed = 3;
  o.precision = precision_;
  o.platform =
      std::make_shared<GpuPlatform>(machine_->sim, module().platform({towers, precision_}));
  return o;
}

std::unique_ptr<Device> Gpus::device(int gpu) const {
  return module().platform({{gpu}, precision_})->device(0, 1);
}

Outcome run_on_gpus(const Run& run, const SchedulerOptions& scheduler_options,
                    const std::vector<int>& towers, const std::string& transport) {
  Outcome out;
  const std::set<int> distinct(towers.begin(), towers.end());
  Gpus gpus(towers.empty() ? run.towers : static_cast<int>(distinct.size()), scheduler_options);
  GroupOptions group = group_options(run);
  group.transport = transport;
  ContextOptions context;
  try {
    context = gpus.options(towers);
  } catch (const Error& e) {  // a failed first call
    out.error = std::string("DeviceError: ") + e.what();
    return out;
  }
  run_in(run, context, group, out);
  note(gpus.machine().scheduler(), out);
  context.platform.reset();
  if (out.error.empty() && scheduler_options.fail_call == 0)  // what a failed call did not free
    if (const std::string leaks = gpus.machine().leaks(); !leaks.empty())
      out.reports.push_back("left alive: " + leaks);
  return out;
}

}  // namespace belfry::sim
