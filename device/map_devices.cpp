// SPDX-License-Identifier: MIT
#include "belfry/device/map_devices.h"

#include <set>
#include <string>

#include "belfry/core/error.h"

namespace belfry {

void run_on_devices(Context& context, const std::vector<int>& towers,
                    const std::function<void(std::size_t, Device&)>& f) {
  std::set<int> seen;
  for (const int tower : towers) {
    if (tower < 0 || tower >= context.towers())
      throw ConfigError(
          ErrorText{.what = "a list of devices",
                    .found = "tower " + std::to_string(tower),
                    .expected = "towers in [0, " + std::to_string(context.towers()) + ")"});
    if (!seen.insert(tower).second)
      throw ConfigError(ErrorText{.what = "a list of devices",
                                  .found = "tower " + std::to_string(tower) + " twice",
                                  .expected = "each once: a device has one thread"});
  }
  if (towers.empty()) return;
  context.host().run(static_cast<int>(towers.size()), [&](int k) {
    const auto place = static_cast<std::size_t>(k);
    Device& device = context.device(towers[place]);
    device.bind_thread();
    try {
      const Settled settled(device.main());
      f(place, device);
      device.synchronize();
    } catch (...) {
      rethrow_located(std::current_exception(), -1, towers[place], -1);
    }
  });
}

}  // namespace belfry
