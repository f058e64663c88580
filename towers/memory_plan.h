// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "belfry/allreduce/leaf_plan.h"
#include "belfry/allreduce/mover.h"
#include "belfry/autodiff/module.h"
#include "belfry/device/device_memory.h"
#include "belfry/optim/optimizer.h"

namespace belfry {

// What a group will allocate, without activations, known from a module that has no memory yet.
// Sizes are doubles: those of an impossible model do not fit 64 bits.
struct MemoryPlan {
  struct Line {
    std::string kind;  // "parameter", "gradient", a state's name, "ema", "model state", ...
    double bytes = 0;  // of one copy
    int copies = 1;
  };
  std::vector<std::pair<std::string, Shape>> variables;  // as constructed
  double parameters = 0;
  int towers = 1;
  std::vector<Line> lines;
  double total() const;  // bytes
};

// How towers share the backward passes. Throws ConfigError with more towers than virtual shards.
LeafPlan leaf_plan(const Optimizer& optimizer, int towers);

MemoryPlan plan_memory(const Module& module, const Optimizer& optimizer, int towers,
                       Variables variables);

// Bytes this process may still take: MemAvailable, or the control group's limit where that is
// lower; infinity where neither can be read.
double available_memory();

// Throws ConfigError with both numbers when the plan does not fit into `available` bytes. `fix`:
// what would make it smaller.
void require_memory(const MemoryPlan& plan, double available, const std::string& fix);

// What the plan takes on a GPU, whose towers have equal parts of it.
struct GpuShare {
  DeviceId gpu;
  int towers = 0;
  double needed = 0;  // bytes
  DeviceMemory memory;
};
// One for each GPU of the context; none where towers use the host's memory.
std::vector<GpuShare> gpu_shares(const MemoryPlan& plan, const Context& context);

// The same for where the context's towers are: the host's memory, or each GPU's that is free.
void require_memory(const MemoryPlan& plan, const Context& context, const std::string& fix);

// The fewest rows of a backward pass among those that a batch of `rows` is cut into; passes without
// rows are none.
std::int64_t smallest_pass(const Optimizer& optimizer, int towers, std::int64_t rows);

}  // namespace belfry
