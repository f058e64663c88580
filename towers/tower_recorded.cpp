// SPDX-License-Identifier: MIT
// Forward and backward of an update, given anew or replayed.
#include <utility>

#include "belfry/towers/tower_internal.h"

namespace belfry {

// The forward passes, and all but the last backward pass; where they are recorded already, what is
// known of them.
void Tower::forward_all(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                        Unit& last) {
  if (recorder_.way() == Recorder::Way::replay) {
    const RecordedPass& pass = recorder_.pass();
    part.flags |= HostPart::kReplays;
    part.units = pass.part.units;
    part.called = pass.part.called;
    part.presence = pass.part.presence;
    for (const auto& metric : pass.metrics) outcome_.add_metric(metric);
    return;
  }
  // A recording that turns out to need more memory than was taken before it finds no collective under
  // way: an allocator may wait for them.
  if (recorder_.way() == Recorder::Way::record && !device_.host_memory())
    mover_->collectives().synchronize();
  recorder_.begin();
  const auto memory = recorder_.memory();
  const Batch& rows = recorder_.keeps() ? recorder_.pass().inputs : shard;
  if (shared_.plan.leaves.strict)
    run_leaves(in, rows, fn, part, last);
  else
    run_units(in, rows, fn, part, last);
  if (!recorder_.keeps()) return;
  part.flags |= HostPart::kTakesMemory;
  recorder_.pass().part = part;
  recorder_.pass().metrics = outcome_.metrics();
}

// The rest of the passes; `open` begins the exchange, which no graph has in it.
void Tower::backward_all(const UpdateInput& in, const Batch& shard, const LossFn& fn, Unit& last,
                         const std::function<void()>& open, TowerResult& out) {
  if (recorder_.way() == Recorder::Way::replay &&
      recorder_.pass().present != out.decision.present) {  // the others' gradients matter here
    recorder_.pass().graph.reset();
    recorder_.as_given();
    outcome_.start();
    HostPart again = new_part(in, shard);
    forward_all(in, shard, fn, again, last);
  }
  if (recorder_.way() == Recorder::Way::replay) return replay();
  if (recorder_.capturing()) recorder_.pass().buckets.clear();
  {
    const auto memory = recorder_.memory();  // of this pass only: the exchange may take its own
    run_last(last, out);
  }
  if (!recorder_.capturing()) return;
  RecordedPass& pass = recorder_.pass();
  pass.present = out.decision.present;
  pass.stack = stack_;
  pass.weights = weights_;
  if (recorder_.end()) out.recorded = recorder_.describe();
  open();
  replay();
}

void Tower::replay() {
  const RecordedPass& pass = recorder_.pass();
  device_.main().replay(*pass.graph);
  stack_ = pass.stack;
  weights_ = pass.weights;
  for (std::size_t k = 0; k < pass.buckets.size() && !held_; ++k) release(pass.buckets[k]);
}

}  // namespace belfry
