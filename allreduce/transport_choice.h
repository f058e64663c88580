// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/allreduce/mover.h"

namespace belfry {

struct TransportChoice {
  std::string name;
  std::string reason;  // TransportOptions::reason
};

// What "auto" stands for with these towers: NCCL where each is on a GPU of its own and the plug-in
// brings it, else threads. Any other name stays.
TransportChoice choose_transport(const Context& context, const std::string& asked);

// Where the variables can live: devices whose memory is their own have a copy each.
Variables possible_variables(const Context& context, Variables asked);

}  // namespace belfry
