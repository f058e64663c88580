// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/check.h"
#include "belfry/device/peer_access.h"
#include "belfry/device/types.h"

namespace belfry {
namespace {

// NCCL or an earlier context may have asked already. A GPU takes a limited number of peers.
bool reaches(int gpu, int peer) {
  int can = 0;
  BELFRY_CUDA(gpu, cudaDeviceCanAccessPeer, &can, gpu, peer);
  if (can == 0) return false;
  const CurrentDevice current(gpu);
  const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled || code == cudaErrorTooManyPeers) {
    cudaGetLastError();
    return code == cudaErrorPeerAccessAlreadyEnabled;
  }
  check_cuda(code, "cudaDeviceEnablePeerAccess", gpu);
  return true;
}

std::vector<std::string> enable(const std::vector<int>& gpus) {
  std::vector<std::string> apart;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (std::size_t k = i + 1; k < gpus.size(); ++k) {
      const bool there = reaches(gpus[i], gpus[k]), back = reaches(gpus[k], gpus[i]);
      if (!there || !back)
        apart.push_back(name_of(DeviceId{Backend::cuda, gpus[i]}) + " and " +
                        name_of(DeviceId{Backend::cuda, gpus[k]}));
    }
  return apart;
}

}  // namespace

const void* extension_peers() {
  static constexpr PeerAccess kAccess{enable};
  return &kAccess;
}

}  // namespace belfry
