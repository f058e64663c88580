// SPDX-License-Identifier: MIT
// Strict mode's part of a tower: leaves, each with a gradient of its own, added up in the tree.
#include "belfry/allreduce/leaf.kernel.h"
#include "belfry/allreduce/verdict.kernel.h"
#include "belfry/towers/tower_internal.h"

namespace belfry {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

// The rows of each leaf of this tower, counted from its first row; some may have none.
std::vector<RowPart> Tower::leaf_rows(std::int64_t batch) const {
  const LeafPlan& plan = shared_.plan.leaves;
  const int first = plan.first_shard(index_);
  const std::int64_t base = belfry::part_of(batch, first, plan.shards).first;
  std::vector<RowPart> out;
  for (int v = first; v < first + plan.shard_count(index_); ++v) {
    const RowPart shard = belfry::part_of(batch, v, plan.shards);
    for (int k = 0; k < plan.cuts; ++k) {
      const RowPart cut = belfry::part_of(shard.count, k, plan.cuts);
      out.push_back({shard.first - base + cut.first, cut.count});
    }
  }
  return out;
}

void Tower::start_leaves(std::int64_t batch) {
  leaves_ = leaf_rows(batch);
  stack_ = LeafStack();
  weights_.clear();
  units_ = 0;
  last_leaf_ = -1;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].count > 0) ++units_, last_leaf_ = static_cast<int>(i);
}

// All leaves up to the last one with rows, of which only the forward pass.
void Tower::run_leaves(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                       Unit& last) {
  const LeafPlan& plan = shared_.plan.leaves;
  device_.main().fill(mover_->part(), 0, at(plan.parts) * sizeof(DevicePart));
  for (int i = 0; i <= last_leaf_; ++i) {
    const RowPart& rows = leaves_[at(i)];
    if (rows.count == 0) {
      empty_leaf(i);
      continue;
    }
    reset_sinks(mover_->gradient(stack_.size()));
    Unit unit = forward(in, shard.slice(rows.first, rows.count), fn);
    add_unit(unit, mover_->part() + i, true);
    note_presence(unit, part, i / plan.cuts);
    ++part.units;
    if (i == last_leaf_) {
      last = std::move(unit);
      return;
    }
    backward(unit, !shared_.lone);
    end_leaf(i);
  }
}

void Tower::empty_leaf(int leaf) {
  const std::size_t bytes = shared_.plan.index.elements() * sizeof(float);
  device_.main().fill(mover_->gradient(stack_.size()), 0, bytes);
  if (shared_.plan.unit_squares) device_.main().fill(mover_->unit_squares(stack_.size()), 0, bytes);
  if (states_) states_->clear(stack_.size());
  push_leaf(leaf);
}

void Tower::end_leaf(int leaf) {
  const int slot = stack_.size();
  if (leaves_.size() > 1 || shared_.plan.unit_squares) zero_missing();
  if (shared_.plan.unit_squares)
    launch_elements(device_.main(), shared_.plan.index.elements(),
                    LeafSquares{mover_->gradient(slot), mover_->unit_squares(slot),
                                &mover_->part()[leaf].weight});
  push_leaf(leaf);
}

void Tower::push_leaf(int leaf) {
  const LeafPlan& plan = shared_.plan.leaves;
  const std::size_t n = shared_.plan.index.elements();
  stack_.push({0, plan.first_shard(index_) * plan.cuts + leaf});
  weights_.push_back(&mover_->part()[leaf].weight);
  while (stack_.merge()) {
    const int left = stack_.size() - 1;
    launch_elements(device_.main(), n,
                    MergeLeaves{mover_->gradient(left), mover_->gradient(left + 1),
                                weights_[at(left)], weights_[at(left + 1)]});
    if (shared_.plan.unit_squares)
      launch_elements(device_.main(), n,
                      MergeLeaves{mover_->unit_squares(left), mover_->unit_squares(left + 1),
                                  nullptr, nullptr});
    if (states_) states_->merge(left);
    weights_.pop_back();
    weights_.back() = nullptr;
  }
}

}  // namespace belfry
