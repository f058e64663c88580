// SPDX-License-Identifier: MIT
#include "belfry/bench/common/network_model.h"

#include <algorithm>

namespace belfry::bench {
namespace {

// What a GPU sends of one bucket in one direction: exchange or gather.
void count_bytes(double bytes, const Cluster& c, StepModel& out) {
  const double local = c.local(), nodes = c.nodes();
  out.bytes_inside += bytes * (local - 1) / local;
  out.bytes_across += bytes / local * (nodes - 1) / nodes;
}

// The fold of a bucket: at each level, as many slices as members are read and one is written.
double fold_seconds(double bytes, const Cluster& c) {
  const double local = c.local(), nodes = c.nodes();
  double moved = 0;
  if (c.local() > 1) moved += bytes / local * (local + 1);
  if (c.nodes() > 1) moved += bytes / (local * nodes) * (nodes + 1);
  return moved / c.memory_rate;
}

// The rule reads gradient, parameter and states and writes parameter and states.
double update_seconds(const NetPlan& plan, double gpus, double memory_rate) {
  return 4 * plan.parameters / gpus * (3 + 2 * plan.states) / memory_rate;
}

}  // namespace

double slices_seconds(double bytes, int members, const Link& link) {
  if (members < 2) return 0;
  const double n = members;
  const int waits = (members - 2 + link.in_flight) / link.in_flight;
  return waits * link.latency + bytes * (n - 1) / n / link.bytes_per_second;
}

double two_level_seconds(double bytes, const Cluster& c) {
  if (c.gpus < 2) return 0;
  const int levels = (c.local() > 1 ? 1 : 0) + (c.nodes() > 1 ? 1 : 0);
  return levels * c.launch + slices_seconds(bytes, c.local(), c.inside) +
         slices_seconds(bytes / c.local(), c.nodes(), c.across);
}

StepModel model_step(const NetPlan& plan, const Cluster& c, double forward, double backward) {
  StepModel out{.forward = forward, .backward = backward};
  out.alone = forward + backward + update_seconds(plan, 1, c.memory_rate);
  out.update = update_seconds(plan, c.gpus, c.memory_rate);
  double through = 0;  // when the bucket before is folded, from the start of backward
  for (const BucketWork& b : plan.buckets) {
    const double seconds =
        two_level_seconds(b.bytes, c) + (c.gpus > 1 ? fold_seconds(b.bytes, c) : 0);
    through = std::max(through, b.ready * backward) + seconds;
    out.exchange += seconds;
    count_bytes(2 * b.bytes, c, out);
  }
  out.verdict = two_level_seconds(plan.statistics_bytes, c);
  out.exposed_exchange = std::max(through, backward) - backward + out.verdict;
  // The next forward pass begins when its first bucket, the last of the flat order, is there.
  double gathered = 0, work = 0;
  for (auto b = plan.buckets.rbegin(); b != plan.buckets.rend(); ++b) {
    const double seconds = two_level_seconds(b->bytes, c);
    gathered += seconds;
    out.gather += seconds;
    work = std::max(work, gathered) + b->forward * forward;
  }
  out.exposed_gather = work - forward;
  out.step = forward + backward + out.update + out.exposed();
  return out;
}

}  // namespace belfry::bench
