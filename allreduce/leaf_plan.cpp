// SPDX-License-Identifier: MIT
#include "belfry/allreduce/leaf_plan.h"

#include <algorithm>

namespace belfry {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

int trailing_ones(int k) {
  int n = 0;
  for (; (k & 1) != 0; k >>= 1) ++n;
  return n;
}

void plan_merges(LeafPlan& plan, const std::vector<LeafNode>& nodes) {
  LeafStack all;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    all.push(nodes[k]);
    std::uint8_t merges = 0;
    while (all.merge()) ++merges;
    plan.merges.push_back(merges);
    plan.regular = plan.regular && merges == trailing_ones(static_cast<int>(k));
  }
}

}  // namespace

bool LeafStack::merge() {
  const std::size_t n = nodes_.size();
  if (n < 2) return false;
  const LeafNode left = nodes_[n - 2], right = nodes_[n - 1];
  if (left.level != right.level || left.index % 2 != 0 || right.index != left.index + 1)
    return false;
  nodes_.pop_back();
  nodes_.back() = {left.level + 1, left.index / 2};
  return true;
}

int LeafPlan::first_shard(int tower) const {
  return static_cast<int>(belfry::part_of(shards, tower, towers).first);
}

int LeafPlan::shard_count(int tower) const {
  return static_cast<int>(belfry::part_of(shards, tower, towers).count);
}

RowPart LeafPlan::rows_of(int tower, std::int64_t batch) const {
  const int first = first_shard(tower);
  const std::int64_t begin = belfry::part_of(batch, first, shards).first;
  const RowPart last = belfry::part_of(batch, first + shard_count(tower) - 1, shards);
  return {begin, last.first + last.count - begin};
}

int LeafPlan::part_of(int leaf) const {
  int tower = 0;
  while (leaf >= (first_shard(tower) + shard_count(tower)) * cuts) ++tower;
  return tower * parts + leaf - first_shard(tower) * cuts;
}

LeafPlan plan_towers(int towers) {
  LeafPlan plan;
  plan.towers = plan.shards = towers;
  std::vector<LeafNode> nodes;
  for (int t = 0; t < towers; ++t) {
    plan.sources.push_back({t, 0, t});
    nodes.push_back({0, t});
  }
  plan_merges(plan, nodes);
  return plan;
}

LeafPlan plan_summed(int towers) {
  LeafPlan plan;
  plan.towers = plan.shards = towers;
  plan.summed = true;
  plan.sources.push_back({0, 0, -1});
  plan_merges(plan, {{0, 0}});
  return plan;
}

LeafPlan plan_strict(int towers, int shards, int cuts) {
  LeafPlan plan;
  plan.towers = towers;
  plan.shards = shards;
  plan.cuts = cuts;
  plan.strict = true;
  plan.slots = 0;
  std::vector<LeafNode> nodes;
  for (int t = 0; t < towers; ++t) {
    LeafStack stack;
    const int first = plan.first_shard(t) * cuts, count = plan.shard_count(t) * cuts;
    for (int leaf = first; leaf < first + count; ++leaf) {
      stack.push({0, leaf});
      plan.slots = std::max(plan.slots, stack.size());
      while (stack.merge()) {
      }
    }
    for (int slot = 0; slot < stack.size(); ++slot) {
      const LeafNode& n = stack.nodes()[at(slot)];
      plan.sources.push_back({t, slot, n.level == 0 ? n.index : -1});
      nodes.push_back(n);
    }
    plan.partials = std::max(plan.partials, stack.size());
    plan.parts = std::max(plan.parts, count);
  }
  plan_merges(plan, nodes);
  return plan;
}

}  // namespace belfry
