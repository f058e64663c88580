// SPDX-License-Identifier: MIT
// Batches whose fields lie on GPUs.
#include "belfry/autodiff/ops/elementwise/tanh.h"
#include "belfry/autodiff/scope.h"
#include "belfry/optim/optimizer.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::sim;
using belfry::test::batch_of;
using belfry::test::classify;

TEST_CASE(
    "a batch that a GPU still computes may be trained on at once, with the bits of the host's",
    "[cuda-sim]") {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    INFO("seed " << seed);
    Gpus machine(2, {.seed = seed});
    std::string hashes[2];
    for (const bool waits : {true, false}) {
      Context context(machine.options());
      GroupOptions options;
      options.variables = Variables::replicated;
      TowerGroupBase group(context, momentum({.lr = 0.05}), test::mlp(), options);
      const Batch host = batch_of(context, 12);
      Device& gpu = context.device(1);
      gpu.bind_thread();
      const Scope scope({});
      Batch b;
      b.place(host);
      b.add("image", tanh(host["image"].to(gpu)));
      b.add("label", host["label"]);
      if (waits) gpu.synchronize();
      group.step(b, classify);
      hashes[waits ? 1 : 0] = group.parameter_hash();
    }
    CHECK(hashes[0] == hashes[1]);
    CHECK(machine.faults() == std::vector<std::string>{});
  }
}
