// SPDX-License-Identifier: MIT
// What every front of the scheduler has: the host threads, and the heap.
#pragma once
#include <memory>
#include <vector>

#include "belfry/device/communicator.h"
#include "belfry/tests/sim/scheduler.h"

namespace belfry::sim {

// Host threads that take turns. The scheduler must outlive it.
std::unique_ptr<Host> make_sim_host(Scheduler& scheduler);

// `usual`, or fewer if $BELFRY_SIM_SEEDS says so.
std::uint64_t seeds(std::uint64_t usual);

// The scheduler that hears of memory given back to the heap, or none.
void watch_heap(Scheduler* scheduler);

std::vector<Range> ranges_of(const Touches& touches);

}  // namespace belfry::sim
