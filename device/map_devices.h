// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "belfry/device/context.h"

namespace belfry {

// What map_devices() got from one device.
template <class R>
struct DeviceResult {
  int tower;  // as listed: context.device(tower)
  DeviceId device;
  R value;
};

// Calls f(k, device) for each k-th listed device of the context, all at the same time, each on a
// host thread of its own that is bound to it, and waits for what they have put on its main stream.
// Throws ConfigError when a tower is not there or listed twice, else the error of the first in the
// list with its tower; a foreign exception comes nested in a TowerError. Not inside of a step, nor
// of itself: DeviceError.
void run_on_devices(Context& context, const std::vector<int>& towers,
                    const std::function<void(std::size_t, Device&)>& f);

// f(device) on each listed device, as run_on_devices() does; the results in the order of the list.
// They are complete, so that the host may read tensors among them and combine.
template <class F>
auto map_devices(Context& context, const std::vector<int>& towers, F&& f) {
  using R = std::decay_t<std::invoke_result_t<F&, Device&>>;
  std::vector<std::optional<R>> values(towers.size());
  run_on_devices(context, towers,
                 [&](std::size_t k, Device& device) { values[k].emplace(f(device)); });
  std::vector<DeviceResult<R>> out;
  out.reserve(towers.size());
  for (std::size_t k = 0; k < towers.size(); ++k)
    out.push_back({towers[k], context.device(towers[k]).id(), std::move(*values[k])});
  return out;
}

// combine(results), on the calling thread.
template <class F, class Combine>
auto map_devices(Context& context, const std::vector<int>& towers, F&& f, Combine&& combine) {
  return std::forward<Combine>(combine)(map_devices(context, towers, std::forward<F>(f)));
}

}  // namespace belfry
