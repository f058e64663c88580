// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace belfry {

// A platform's extension "peers": lets GPUs of this process read each other's memory, so that
// copies between them do not go through the host.
struct PeerAccess {
  // For all pairs of `gpus`, once in a process; those that cannot, as "cuda:0 and cuda:1". Throws
  // DeviceError.
  std::vector<std::string> (*enable)(const std::vector<int>& gpus);
};

}  // namespace belfry
