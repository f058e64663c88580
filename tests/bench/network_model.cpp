// SPDX-License-Identifier: MIT
// The model of the network against closed forms, and the buckets it is fed with.
#include "belfry/bench/common/net_plan.h"
#include "belfry/core/error.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using namespace belfry::bench;

namespace {

constexpr double kInf = 1e30;  // bytes a second: no time

Cluster cluster(int gpus, Link inside, Link across, int per_node = 8) {
  return {.gpus = gpus,
          .per_node = per_node,
          .inside = inside,
          .across = across,
          .launch = 0,
          .memory_rate = kInf};
}

NetPlan plan_of(std::vector<BucketWork> buckets) {
  NetPlan out{.name = "test", .buckets = std::move(buckets)};
  return out;
}

}  // namespace

TEST_CASE(
    "model: exchange and gather send 2 (N - 1) / N of the gradient, in two levels as in one") {
  const NetPlan plan = plan_of({{3e6, 0.5, 0.5}, {1e6, 1, 0.5}});
  for (const int gpus : {1, 2, 3, 8}) {
    const StepModel m = model_step(plan, cluster(gpus, {0, 1e9}, {0, 1e9}), 1, 2);
    CHECK(m.bytes_inside == Approx(2 * 4e6 * (gpus - 1) / gpus));
    CHECK(m.bytes_across == 0);
  }
  for (const int nodes : {2, 4, 512}) {
    const StepModel m = model_step(plan, cluster(8 * nodes, {0, 1e9}, {0, 1e9}), 1, 2);
    CHECK(m.bytes_inside == Approx(2 * 4e6 * 7 / 8));
    CHECK(m.bytes_across == Approx(2 * 4e6 / 8 * (nodes - 1) / nodes));
    // All together as a ring over all GPUs.
    CHECK(m.bytes_inside + m.bytes_across == Approx(2 * 4e6 * (8.0 * nodes - 1) / (8 * nodes)));
  }
}

TEST_CASE(
    "model: links without latency take the bytes over the rate, links without bytes n - 1 "
    "latencies") {
  CHECK(slices_seconds(8e9, 4, {0, 2e9}) == Approx(3));
  CHECK(slices_seconds(0, 4, {1e-3, 2e9}) == Approx(3e-3));
  CHECK(slices_seconds(8e9, 4, {1e-3, 2e9}) == Approx(3.003));
  CHECK(slices_seconds(0, 9, {1e-3, 2e9, 4}) == Approx(2e-3));
  CHECK(slices_seconds(0, 10, {1e-3, 2e9, 4}) == Approx(3e-3));
  CHECK(slices_seconds(8e9, 1, {1e-3, 2e9}) == 0);
  const Cluster slow = cluster(32, {0, 10e9}, {0, 1e9});
  CHECK(two_level_seconds(8e9, slow) == Approx(8.0 * 7 / 8 / 10 + 1.0 * 3 / 4 / 1));
  const Cluster late = cluster(32, {1e-6, kInf}, {1e-5, kInf});
  CHECK(two_level_seconds(8e9, late) == Approx(7e-6 + 3e-5));
  // One GPU a node: no term of the links inside.
  CHECK(two_level_seconds(8e9, cluster(4, {1, 1}, {0, 2e9}, 1)) == Approx(3));
}

TEST_CASE("model: one node has no term of the links between nodes; one GPU none at all") {
  const NetPlan plan = plan_of({{1e9, 1, 1}});
  const StepModel a = model_step(plan, cluster(8, {1e-6, 100e9}, {1, 1}), 1, 2);
  const StepModel b = model_step(plan, cluster(8, {1e-6, 100e9}, {0, kInf}), 1, 2);
  CHECK(a.step == b.step);
  CHECK(a.bytes_across == 0);
  const StepModel alone = model_step(plan, cluster(1, {1, 1}, {1, 1}), 1, 2);
  CHECK(alone.exposed() == 0);
  CHECK(alone.efficiency() == 1);
}

TEST_CASE("model: what backward and forward hide, and what they do not") {
  // Without latency a bucket of 8e9 bytes takes 0.7 s among 8 GPUs.
  const Cluster c = cluster(8, {0, 10e9}, {0, 1});
  // Three buckets, ready at 1, 2 and 3 s of backward: the last one shows, 0.7 s.
  const StepModel hidden =
      model_step(plan_of({{8e9, 1.0 / 3, 0.4}, {8e9, 2.0 / 3, 0.3}, {8e9, 1, 0.3}}), c, 10, 3);
  CHECK(hidden.exchange == Approx(2.1));
  CHECK(hidden.exposed_exchange == Approx(0.7));
  CHECK(hidden.exposed_gather == Approx(0.7));  // the first one that forward reads
  // Ready all at the end, nothing is hidden; forward without work waits for all three.
  const StepModel seen = model_step(plan_of({{8e9, 1, 0}, {8e9, 1, 0}, {8e9, 1, 0}}), c, 0, 3);
  CHECK(seen.exposed_exchange == Approx(2.1));
  CHECK(seen.exposed_gather == Approx(2.1));
  CHECK(seen.step == Approx(3 + 4.2));
  CHECK(seen.efficiency() == Approx(3 / 7.2));
  // A bucket that takes longer than the time to the next one delays it: 1 + 3 x 0.7.
  const StepModel queued =
      model_step(plan_of({{8e9, 1, 0.4}, {8e9, 1, 0.3}, {8e9, 1, 0.3}}), c, 10, 1);
  CHECK(queued.exposed_exchange == Approx(2.1));
}

TEST_CASE("model: update and fold move the arrays of a slice through the GPU's memory") {
  Cluster c = cluster(8, {0, kInf}, {0, kInf});
  c.memory_rate = 1e9;
  NetPlan plan = plan_of({{4e9, 1, 1}});
  plan.parameters = 1e9;
  plan.states = 2;
  const StepModel m = model_step(plan, c, 1, 2);
  CHECK(m.update == Approx(4.0 * 7 / 8));     // 3 + 2 states arrays read, 1 + 2 written
  CHECK(m.exchange == Approx(4.0 / 8 * 9));   // 8 slices read, one written
  CHECK(m.alone == Approx(1 + 2 + 4.0 * 7));  // all of them on one GPU
  c.gpus = 16;                                // a second level folds half a slice of two
  CHECK(model_step(plan, c, 1, 2).exchange == Approx(4.0 / 8 * 9 + 4.0 / 16 * 3));
}

TEST_CASE("model: the buckets are those of the engine") {
  const NetPlan gpt = net_plan("gpt");
  CHECK(gpt.parameters == 124439808);
  CHECK(gpt.states == 2);
  double bytes = 0, forward = 0, before = 0;
  for (const BucketWork& b : gpt.buckets) {
    bytes += b.bytes;
    forward += b.forward;
    CHECK(b.ready >= before);
    CHECK(b.bytes <= (25 << 20));
    before = b.ready;
  }
  CHECK(gpt.buckets.size() == 20);
  CHECK(gpt.buckets[0].bytes == 1 << 20);
  CHECK(bytes >= 4 * gpt.parameters);
  CHECK(bytes < 4 * gpt.parameters + 4 * 4096 + 4 * 64 * 148);
  CHECK(forward == Approx(1));
  CHECK(before == Approx(1));
  // 2 x (84,934,656 weights of blocks + head and attention) a position.
  CHECK(gpt.forward_flops ==
        Approx(2 * 1024.0 * (12 * 12.0 * 768 * 768 + 50257.0 * 768 + 12.0 * 1024 * 768)));
  const NetPlan resnet = net_plan("resnet50");
  CHECK(resnet.parameters == 25557032);
  CHECK(resnet.forward_flops == Approx(2 * 4.089e9).epsilon(0.01));  // He et al. 2015: 3.8e9 pairs
  CHECK(net_plan("mlp").parameters == 235146);
  CHECK(net_plan("mlp").buckets.size() == 1);
  CHECK(net_plan("lenet").parameters == 61706);
  CHECK(net_plan("lenet").forward_flops ==
        Approx(2.0 * (784 * 25 * 6 + 100 * 150 * 16 + 400 * 120 + 120 * 84 + 840)));
  CHECK_THROWS_AS(net_plan("alexnet"), ConfigError);
}
