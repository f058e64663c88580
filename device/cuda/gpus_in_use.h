// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

namespace belfry {

// GPUs on which a group of `owner`, a context, has collectives, for as long as this lives. An arena
// settles its own context's streams before it takes memory, no others: a group of another context
// on the same GPUs is a DeviceError. Any thread.
class GpusInUse {
 public:
  GpusInUse(const void* owner, std::vector<int> gpus);
  ~GpusInUse();
  GpusInUse(const GpusInUse&) = delete;
  GpusInUse& operator=(const GpusInUse&) = delete;

 private:
  std::vector<int> gpus_;
};

}  // namespace belfry
