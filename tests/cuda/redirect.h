// SPDX-License-Identifier: MIT
// Included before tests that know nothing of GPUs: their "cpu:N" contexts and CPU devices get
// simulated GPUs of their own instead.
#pragma once
#include "belfry/belfry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry {

// The simulated machine, shared by all contexts there are; gone, and checked, with the last one.
class MachineHolder {
 protected:
  MachineHolder() : machine_(take()) {}
  MachineHolder(const MachineHolder&) = delete;
  MachineHolder& operator=(const MachineHolder&) = delete;
  ~MachineHolder() {
    if (machine_.use_count() > 1) return;
    std::vector<std::string> said = machine_->machine().reports();
    CHECK(said == std::vector<std::string>{});
    CHECK(machine_->machine().leaks() == "");
  }
  static constexpr int kGpus = 64;
  sim::Gpus& machine() const { return *machine_; }
  ContextOptions on_gpus(ContextOptions o) const {
    const std::size_t colon = o.towers.find("cpu:");
    const int n = colon == 0 ? std::atoi(o.towers.c_str() + 4) : 0;
    if (n < 1 || o.platform) return o;
    std::vector<int> towers;
    static int next = 0;
    for (int t = 0; t < n; ++t) towers.push_back(next++ % kGpus);
    const ContextOptions gpus = machine_->options(towers);
    o.towers = gpus.towers;
    o.platform = gpus.platform;
    return o;
  }

 private:
  static std::shared_ptr<sim::Gpus> take() {
    static std::weak_ptr<sim::Gpus> shared;
    std::shared_ptr<sim::Gpus> gpus = shared.lock();
    if (!gpus) shared = gpus = std::make_shared<sim::Gpus>(kGpus, sim::SchedulerOptions{.seed = 7});
    return gpus;
  }
  std::shared_ptr<sim::Gpus> machine_;
};

class ContextOnGpus : private MachineHolder, public Context {
 public:
  ContextOnGpus(const ContextOptions& options) : Context(on_gpus(options)) {}
};

// A device of a machine that lives as long.
class DeviceOnGpu : private MachineHolder, public Device {
 public:
  explicit DeviceOnGpu(int index) : gpu_(machine().device(index)) { gpu_->bind_thread(); }
  DeviceId id() const noexcept override { return gpu_->id(); }
  std::unique_ptr<Stream> stream(int priority) override { return gpu_->stream(priority); }
  std::unique_ptr<Event> event(bool external) override { return gpu_->event(external); }
  Arena& arena(MemoryKind kind) override { return gpu_->arena(kind); }
  Stream& main() override { return gpu_->main(); }
  int threads() const noexcept override { return 1; }
  void set_threads(int) override {}
  bool host_memory() const noexcept override { return false; }
  void synchronize() override { gpu_->synchronize(); }
  void bind_thread() override { gpu_->bind_thread(); }

 private:
  std::unique_ptr<Device> gpu_;
};

// With BELFRY_TEST_CAPTURE groups record their passes.
class CapturingGroup : public TowerGroupBase {
 public:
  CapturingGroup(::belfry::Context& context, Optimizer optimizer, const Factory& make,
                 GroupOptions options = {})
      : TowerGroupBase(context, std::move(optimizer), make, capturing(std::move(options))) {}

 private:
  static GroupOptions capturing(GroupOptions o) {
    o.capture = o.capture || std::getenv("BELFRY_TEST_CAPTURE") != nullptr;
    return o;
  }
};

inline std::unique_ptr<Device> gpu_in_its_place(int index, int, Executor) {
  return std::make_unique<DeviceOnGpu>(index);
}

}  // namespace belfry

#define Context ContextOnGpus
#define TowerGroupBase CapturingGroup
#define make_cpu_device gpu_in_its_place
