// SPDX-License-Identifier: MIT
// average_gradients() on lists that nobody has waited for.
#include <memory>

#include "belfry/allreduce/average_gradients.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/platform.h"

using namespace belfry;
using namespace belfry::sim;

TEST_CASE("average_gradients waits for the devices its lists lie on", "[lifetimes]") {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    const auto platform = std::make_shared<SimPlatform>(SchedulerOptions{.seed = seed});
    Context context({.towers = "cpu:3", .threads_per_tower = 1, .platform = platform});
    std::vector<GradientList> lists(3);
    for (int t = 0; t < 3; ++t) {
      Device& device = context.device(t);
      const Tensor g = Tensor::empty(Shape{4}, DType::f32, device);
      device.main().run(Touches().writes(g.raw(), g.bytes()), [p = g.data<float>(), t] {
        for (int i = 0; i < 4; ++i) p[i] = static_cast<float>(t + i);
      });
      lists[static_cast<std::size_t>(t)].emplace_back(g, "w");
    }
    const AveragedGradients mean = average_gradients(lists);
    const Tensor& first = mean.mean.at(0).gradient;  // whole, for streams that know nothing of it
    context.device(1).main().run(Touches().reads(first.raw(), first.bytes()), [] {});
    context.device(1).synchronize();
    CHECK(mean.mean.at(0).gradient.to_vector() == std::vector<double>{1, 2, 3, 4});
    CHECK(platform->scheduler().reports() == std::vector<std::string>{});
  }
}
