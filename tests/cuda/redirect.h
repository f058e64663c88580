// SPDX-License-Identifier: MIT
// Included before tests of the engine that know nothing of GPUs: their "cpu:N" contexts get N
// simulated GPUs of their own instead.
#pragma once
#include "belfry/belfry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"

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

}  // namespace belfry

#define Context ContextOnGpus
