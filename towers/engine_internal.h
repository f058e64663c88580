// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belfry/allreduce/round_record.h"
#include "belfry/allreduce/verdict.kernel.h"
#include "belfry/optim/update_args.h"
#include "belfry/towers/group.h"
#include "belfry/towers/outcome_internal.h"

namespace belfry {

// What every tower of a group reads and none changes during a step.
struct EngineShared {
  Context* context = nullptr;
  Optimizer optimizer;
  GroupOptions options;
  FlatPlan plan;
  std::vector<const Device*> devices;  // one a tower
  std::vector<char> trainable;         // one a variable, flat order
  std::vector<int> first_bucket,
      last_bucket;     // buckets a variable lies in; last < first when empty
  bool fused = false;  // nothing has to be known before an update: one pass
  bool lone = false;   // one unit in every update: its gradient is the mean
  FoldConfig fold;
  std::vector<FoldPlan> fold_plan;      // without presence
  std::vector<float> decay;             // one a variable
  std::vector<int> bucket_variables;    // variables that lie in each bucket
  std::atomic<bool> stop_asked{false};  // set at any time; goes out with the next record
};

// The inputs of one update, equal for all towers.
struct UpdateInput {
  std::int64_t update = 0;  // its number
  double lr = 0;
  std::int64_t rows = 0;  // of the batch
  enum class Kind : std::uint8_t { train, average_only, apply } kind = Kind::train;
  const AveragedGradients* averaged = nullptr;  // apply
  const std::vector<float>* squares = nullptr;  // apply, where the rule wants them: flat
};

// What a tower found out; read by the caller after the join.
struct TowerResult {
  std::exception_ptr error;  // thrown by this tower's function or one of its ops
  std::string refusal;       // the group's GradientError text
  bool refused = false;
  std::string bad_variable;  // first variable with a non-finite gradient here
  bool bad_loss = false;
  Decision decision;
  Verdict verdict;
  Totals totals;
  std::vector<MetricValue> metrics;
  double forward_backward = 0, exposed = 0, update = 0;
  std::vector<std::string> placement;
  std::string recorded;  // what was recorded in this update
};

// The kinds of updates there have been: rows and presence of every tower and whether it records or
// replays a pass, in memory of its own, which are known to all.
// A GPU's allocator may wait for whatever runs on any GPU, also for a collective that waits for
// this tower. So the first update of a kind exchanges nothing before every tower's backward pass
// has taken its memory; later ones find that memory in the arena.
class UpdateKinds {
 public:
  bool add(const std::vector<HostPart>& parts) {  // true for the first of its kind
    std::vector<std::uint64_t> kind;
    for (const HostPart& p : parts) {
      kind.push_back(static_cast<std::uint64_t>(p.rows));
      kind.push_back(p.flags & (HostPart::kTakesMemory | HostPart::kReplays));
      kind.insert(kind.end(), p.presence.begin(), p.presence.end());
    }
    return seen_.insert(std::move(kind)).second;
  }

 private:
  std::set<std::vector<std::uint64_t>> seen_;
};

}  // namespace belfry
