// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>

#include "belfry/allreduce/mover.h"
#include "belfry/tests/sim/platform.h"

namespace belfry::sim {

// The ends of a group whose collectives are operations of the scheduler, as NCCL's are: issued
// without waiting, executed when all members' streams have reached them. Arguments are compared at
// issue: a mismatch aborts the group and is a CommError. For GroupOptions::make_transport.
std::function<std::unique_ptr<Transport>(Context&, const TransportOptions&)> sim_transport(
    Scheduler& scheduler);

}  // namespace belfry::sim
