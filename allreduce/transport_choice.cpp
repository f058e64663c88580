// SPDX-License-Identifier: MIT
#include "belfry/allreduce/transport_choice.h"

#include <map>

namespace belfry {

TransportChoice choose_transport(const Context& context, const std::string& asked) {
  if (asked != "auto") return {asked, "asked for by transport = \"" + asked + "\""};
  std::map<DeviceId, int> towers;
  for (int t = 0; t < context.towers(); ++t) {
    const DeviceId id = context.device(t).id();
    if (id.backend != Backend::cuda) return {"threads", "towers on the CPU"};
    ++towers[id];
  }
  std::string shared;
  for (const auto& [id, n] : towers)
    if (n > 1) shared += (shared.empty() ? "" : ", ") + name_of(id);
  if (!shared.empty()) return {"threads", "several towers on " + shared};
  if (context.towers() == 1) return {"threads", "one tower"};
  if (context.platform()->extension("nccl") == nullptr)
    return {"threads", "the CUDA plug-in has no NCCL"};
  return {"nccl", "each tower has a GPU of its own"};
}

Variables possible_variables(const Context& context, Variables asked) {
  for (int t = 0; t < context.towers(); ++t)
    if (!context.device(t).host_memory()) return Variables::replicated;
  return asked;
}

}  // namespace belfry
