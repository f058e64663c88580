// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "belfry/allreduce/flat_index.h"

namespace belfry {

// A node of the tree over leaves: covers leaves [index << level, (index + 1) << level), as far as
// there are any.
struct LeafNode {
  int level = 0, index = 0;
};

// The sums one tower holds while it goes through its leaves in order: each leaf is pushed into the
// next slot, then partners (2i, 2i + 1) of one level are merged into the left one's slot.
class LeafStack {
 public:
  int size() const { return static_cast<int>(nodes_.size()); }  // and the slot of the next leaf
  void push(LeafNode node) { nodes_.push_back(node); }
  // Whether the two last are partners; if so they are one node now.
  bool merge();
  const std::vector<LeafNode>& nodes() const { return nodes_; }

 private:
  std::vector<LeafNode> nodes_;
};

// One summand of the fold: a slot of a tower. `leaf` is the only leaf in it, else -1.
struct LeafSource {
  int tower = 0, slot = 0, leaf = -1;
};

// Which leaves (backward passes with a gradient of their own) each tower goes through, and how
// their sums are added up to the tree over all leaves. Pure data. In strict mode there are `cuts`
// leaves in each of `shards` virtual shards, whatever the number of towers, and so always the same
// sum; else a tower is one leaf, however many passes it makes.
struct LeafPlan {
  int towers = 1, shards = 1, cuts = 1;
  bool strict = false;
  bool summed = false;  // the transport adds the towers' gradients up: they are one source
  std::vector<LeafSource> sources;   // in the order of their leaves
  std::vector<std::uint8_t> merges;  // how many merges follow the push of a source; the rest at the
                                     // end, from the top down
  int slots = 1;                     // gradients a tower holds at most
  int partials = 1;                  // sources of a tower, at most
  int parts = 1;                     // leaves of a tower, at most
  bool regular = true;               // sources are merged as leaves 0, 1, 2 ... are

  int first_shard(int tower) const;
  int shard_count(int tower) const;
  RowPart rows_of(int tower, std::int64_t batch) const;  // of a batch
  int part_of(int leaf) const;                           // its place in an array of `parts` a tower
};

LeafPlan plan_towers(int towers);
LeafPlan plan_summed(int towers);
// towers <= shards.
LeafPlan plan_strict(int towers, int shards, int cuts);

}  // namespace belfry
