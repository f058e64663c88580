// SPDX-License-Identifier: MIT
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/fold.h"
#include "belfry/allreduce/round_record.h"
#include "belfry/towers/engine.kernel.h"
#include "belfry/towers/group.h"

namespace belfry {

// What every tower of a group reads and none changes during a step.
struct EngineShared {
  Context* context = nullptr;
  Optimizer optimizer;
  GroupOptions options;
  FlatPlan plan;
  std::vector<char> trainable;        // one a variable, flat order
  std::vector<int> first_bucket, last_bucket;  // buckets a variable lies in; last < first when empty
  bool fused = false;                 // nothing has to be known before an update: one pass
  bool lone = false;                  // one unit in every update: its gradient is the mean
  FoldConfig fold;
  std::vector<FoldPlan> fold_plan;     // without presence
  std::vector<float> decay;            // one a variable
  std::vector<int> bucket_variables;   // variables that lie in each bucket
};

// The inputs of one update, equal for all towers.
struct UpdateInput {
  std::int64_t update = 0;  // its number
  double lr = 0;
  enum class Kind : std::uint8_t { train, average_only, apply } kind = Kind::train;
  const AveragedGradients* averaged = nullptr;  // apply
};

// What a tower found out; read by the caller after the join.
struct TowerResult {
  std::exception_ptr error;       // thrown by this tower's function or one of its ops
  std::string refusal;            // the group's GradientError text
  bool refused = false;
  std::string bad_variable;       // first variable with a non-finite gradient here
  bool bad_loss = false;
  Decision decision;
  Verdict verdict;
  Totals totals;
  std::vector<std::pair<std::string, Metric>> metrics;
  double forward_backward = 0, exposed = 0, update = 0;
  std::vector<std::string> placement;
};

// One replica on one device and its part of each update. Made and used by the group; everything
// but the constructor runs on the tower's thread.
class Tower {
 public:
  Tower(const EngineShared& shared, int index, std::unique_ptr<Module> module, Transport& transport);

  void update(const UpdateInput& in, const Batch& shard, const LossFn& fn, TowerResult& out);
  // Gradients without averaging: the mean over this tower's units, absent ones undefined.
  GradientList gradients(std::int64_t update, const Batch& shard, const LossFn& fn, double& weight, double& loss);
  Loss evaluate(const Batch& shard, const EvalFn& fn, Step& step);

  // Points the variables at `flat` (this tower's parameters, or a copy for evaluation).
  void bind(float* flat);
  Module& module() { return *module_; }
  Mover& mover() { return *mover_; }
  Device& device() { return device_; }
  std::vector<float> steps() const;
  void set_steps(const std::vector<float>& steps);

 private:
  struct Unit {
    std::unique_ptr<Tape> tape;
    Loss loss;
  };
  std::vector<RowPart> micro_batches(std::int64_t rows) const;
  Batch on_device(const Batch& batch) const;
  Unit forward(const UpdateInput& in, const Batch& rows, const LossFn& fn, TowerResult& out);
  void note_presence(const Unit& unit, HostPart& part);
  void backward(Unit& unit, bool seeded);
  void end_unit(const Unit& unit, bool first);
  void reset_sinks(float* flat);
  void zero_missing();
  void variable_complete(int v);
  void complete_bucket_of(int v);
  void run_units(const UpdateInput& in, const Batch& shard, const LossFn& fn, TowerResult& out, HostPart& part, Unit& last);
  void run_last(Unit& last, TowerResult& out);
  void finish_buckets();
  void load_averaged(const AveragedGradients& averaged, HostPart& part);
  void upload_plan(const UpdateInput& in, const Decision& d);
  void average(const UpdateInput& in, const std::vector<char>& has_rows, Unit& last, TowerResult& out);
  void fold(const UpdateInput& in, const Work& work);
  void apply(const Work& work);
  Totals host_totals();
  void fill_scalars();
  void conclude(const UpdateInput& in, bool fused, const SegmentStats* stats, TowerResult& out);
  void load_squares(const AveragedGradients& averaged);
  void find_bad(TowerResult& out);

  const EngineShared& shared_;
  int index_;
  Device& device_;
  Control& control_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Mover> mover_;
  std::vector<Variable*> variables_;  // flat order
  std::vector<GradSink> sinks_;
  Tensor unit_gradient_;              // with several units and squares
  // Device tables.
  Tensor segments_, fold_plan_, variable_plan_, steps_, scalars_, verdict_, totals_, lr_;
  std::vector<FoldPlan> host_fold_plan_;
  std::vector<VariablePlan> host_variable_plan_;
  float host_lr_ = 0;
  // This update.
  std::vector<int> bucket_left_;
  std::vector<char> complete_, bucket_done_, present_here_;
  bool buckets_open_ = false;         // completing variables may release buckets
  bool filled_ = false;               // the rule's scalars are those of this update
  int micro_left_ = 0;                // units of this update on this tower
};

}  // namespace belfry
