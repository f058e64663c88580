// SPDX-License-Identifier: MIT
// average_gradients over towers on GPUs: lists of several devices in one call, and over NCCL.
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/allreduce/average_across.h"
#include "belfry/tests/cuda/nccl_group.h"

using namespace belfry;
using namespace belfry::test;
using belfry::sim::seeds;

TEST_CASE("average_gradients on GPUs gives the bits of the CPU, in one call and over NCCL",
          "[cuda-sim]") {
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  const AverageOptions o{.include_square = true, .none = MissingOnSome::zero};
  for (const auto& counts : std::vector<std::vector<int>>{{1, 1}, {2, 0, 1}, {1, 1, 1, 1}}) {
    const Averaged expected = alone(counts, DType::f32, *cpu, o, true);
    for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
      INFO(counts.size() << " members, seed " << seed);
      Group g(static_cast<int>(counts.size()), {.seed = seed}, {.check_tags = true});
      const std::vector<std::string> errors = g.run([&](int t, Communicator& c, Device& d) {
        const auto lists = lists_of(counts, t, DType::f32, d, true);
        const Averaged got = values_of(average_gradients(lists, d, c, g.transport->control(t), o));
        if (!(got == expected)) throw NumericError("other bits");
      });
      CHECK(all_empty(errors));
      // Each list on the device of its member, in one call.
      std::vector<GradientList> all;
      for (int m = 0; m < g.context.towers(); ++m)
        for (GradientList& list : lists_of(counts, m, DType::f32, g.context.device(m), true))
          all.push_back(std::move(list));
      CHECK(values_of(average_gradients(all, o)) == expected);
      CHECK(g.sim.reports() == std::vector<std::string>{});
    }
  }
}
