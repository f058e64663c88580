// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/gpus_in_use.h"

#include <map>
#include <mutex>
#include <utility>

#include "belfry/core/error.h"
#include "belfry/device/types.h"

namespace belfry {
namespace {

struct Use {
  const void* owner = nullptr;
  int groups = 0;
};
struct Uses {
  std::mutex mutex;
  std::map<int, Use> of;  // by GPU
};
Uses& uses() {
  static Uses all;
  return all;
}

}  // namespace

GpusInUse::GpusInUse(const void* owner, std::vector<int> gpus) : gpus_(std::move(gpus)) {
  const std::lock_guard lock(uses().mutex);
  for (const int gpu : gpus_) {
    const Use& use = uses().of[gpu];
    if (use.groups > 0 && use.owner != owner)
      throw DeviceError(ErrorText{
          .what = "two groups over NCCL on " + name_of(DeviceId{Backend::cuda, gpu}),
          .found = "a group of another context",
          .expected = "groups of one context: what one takes from a GPU waits for the other's "
                      "collectives",
          .fix = "make both with the same Context, or end the other first"});
  }
  for (const int gpu : gpus_) {
    Use& use = uses().of[gpu];
    use.owner = owner;
    ++use.groups;
  }
}

GpusInUse::~GpusInUse() {
  const std::lock_guard lock(uses().mutex);
  for (const int gpu : gpus_) --uses().of[gpu].groups;
}

}  // namespace belfry
