// SPDX-License-Identifier: MIT
// Two groups at once on the same GPUs.
#include "belfry/core/error.h"
#include "belfry/optim/optimizer.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/simcuda/simcuda.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::sim;
using belfry::test::batch_of;
using belfry::test::classify;
using Catch::Matchers::Contains;

namespace {

std::unique_ptr<TowerGroupBase> group_on(Context& context, double lr) {
  GroupOptions options;
  options.variables = Variables::replicated;
  return std::make_unique<TowerGroupBase>(context, momentum({.lr = lr}), test::mlp(), options);
}

}  // namespace

// Updates of both in turn, with kinds of batches that take memory, and the end of one of them.
TEST_CASE("two groups of one context take turns on its GPUs", "[cuda-sim]") {
  for (const int n : {1, 2, 4})
    for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
      INFO(n << " GPUs, seed " << seed);
      Gpus machine(n, {.seed = seed});
      std::string alone[2], together[2];
      for (int g = 0; g < 2; ++g) {
        Context context(machine.options());
        const auto group = group_on(context, g == 0 ? 0.05 : 0.2);
        for (const std::int64_t rows : {8, 8, 24, 8})
          group->step(batch_of(context, rows), classify);
        alone[g] = group->parameter_hash();
      }
      {
        Context context(machine.options());
        const auto a = group_on(context, 0.05);
        std::unique_ptr<TowerGroupBase> b;
        for (const std::int64_t rows : {8, 8, 24, 8}) {
          a->step(batch_of(context, rows), classify);
          if (!b) b = group_on(context, 0.2);
          b->step(batch_of(context, rows), classify);
        }
        together[0] = a->parameter_hash();
        together[1] = b->parameter_hash();
        a->step(batch_of(context, 8), classify);
        b.reset();
        a->step(batch_of(context, 30), classify);
      }
      CHECK(together[0] == alone[0]);
      CHECK(together[1] == alone[1]);
      CHECK(machine.faults() == std::vector<std::string>{});
    }
}

TEST_CASE("groups of two contexts over NCCL on the same GPU are refused, one after the other not",
          "[cuda-sim][nccl]") {
  Gpus machine(3, {});
  {
    Context first(machine.options({0, 1})), second(machine.options({1, 2})),
        apart(machine.options({2}));
    auto group = group_on(first, 0.1);
    const auto again = group_on(first, 0.1);
    group->step(batch_of(first, 8), classify);
    CHECK_THROWS_WITH(group_on(second, 0.1), Contains("two groups over NCCL on cuda:1") &&
                                                 Contains("a group of another context") &&
                                                 Contains("make both with the same Context"));
    CHECK_THROWS_AS(group_on(second, 0.1), DeviceError);
    CHECK_NOTHROW(group_on(apart, 0.1));
  }
  {
    Context second(machine.options({1, 2}));
    CHECK_NOTHROW(group_on(second, 0.1)->step(batch_of(second, 8), classify));
  }
  CHECK(machine.faults() == std::vector<std::string>{});
}
