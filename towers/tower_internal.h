// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "belfry/allreduce/fold.h"
#include "belfry/allreduce/state_exchange.h"
#include "belfry/towers/engine_internal.h"
#include "belfry/towers/recorder_internal.h"
#include "belfry/towers/update_tables_internal.h"

namespace belfry {

// One replica on one device and its part of each update. Made and used by the group; everything
// but the constructor runs on the tower's thread.
class Tower {
 public:
  Tower(const EngineShared& shared, int index, std::unique_ptr<Module> module,
        Transport& transport);
  ~Tower() { drain(); }  // what is queued uses memory of the group
  Tower(const Tower&) = delete;

  void update(const UpdateInput& in, const Batch& shard, const LossFn& fn, TowerResult& out);
  // Gradients without averaging: the mean over this tower's units, absent ones undefined.
  GradientList gradients(std::int64_t update, const Batch& shard, const LossFn& fn, double& weight,
                         double& loss);
  Loss evaluate(const Batch& shard, const EvalFn& fn, Step& step);
  void require_labels() { outcome_.require_labels(); }  // of evaluate()
  void drain() noexcept;  // runs what is still queued after an error: memory is about to go
  // Points the variables at `flat` (this tower's parameters, or a copy for evaluation).
  void bind(float* flat);
  Module& module() { return *module_; }
  Mover& mover() { return *mover_; }
  StateExchange* states() { return states_.get(); }  // null for a model without
  Device& device() { return device_; }
  UpdateTables& tables() { return tables_; }

 private:
  struct Unit {
    std::unique_ptr<Tape> tape;
    Loss loss;
  };
  std::vector<RowPart> micro_batches(std::int64_t rows) const;
  Batch on_device(const Batch& batch) const;
  Unit forward(const UpdateInput& in, const Batch& rows, const LossFn& fn);
  void add_unit(const Unit& unit, DevicePart* part, bool first);
  void note_presence(const Unit& unit, HostPart& part, int group);
  void backward(Unit& unit, bool seeded);
  void end_unit(const Unit& unit, bool first);
  void reset_sinks(float* flat);
  void zero_missing();
  void variable_complete(int v);
  void complete_bucket_of(int v);
  void release(int bucket);
  HostPart new_part(const UpdateInput& in, const Batch& shard) const;
  void run_units(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                 Unit& last);
  void run_last(Unit& last, TowerResult& out);
  // Recorded passes: tower_recorded.cpp.
  void forward_all(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                   Unit& last);
  void backward_all(const UpdateInput& in, const Batch& shard, const LossFn& fn, Unit& last,
                    const std::function<void()>& open, TowerResult& out);
  void replay();
  // Strict mode: tower_leaves.cpp.
  std::vector<RowPart> leaf_rows(std::int64_t batch) const;
  void start_leaves(std::int64_t batch);
  void run_leaves(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                  Unit& last);
  void empty_leaf(int leaf);
  void end_leaf(int leaf);
  void push_leaf(int leaf);
  std::vector<char> taking_part(const UpdateInput& in, const std::vector<HostPart>& parts) const;
  void finish_buckets();
  void load_averaged(const AveragedGradients& averaged, HostPart& part);
  void average(const UpdateInput& in, const Batch& shard, const LossFn& fn,
               const std::vector<char>& takes_part, Unit& last, TowerResult& out);
  struct Rows {  // the segments of some blocks, and the elements they cover
    std::size_t begin, end, first, size;
  };
  Rows rows_of(const Work& work) const;
  void fold(const UpdateInput& in, const Work& work);
  UpdateArgs update_args(const Work& work);
  void apply(const Work& work);
  void scale_rates();
  void sum_parts();
  void reach_verdict(const SegmentStats* stats);
  void fill_scalars();
  void conclude(const UpdateInput& in, bool fused, const SegmentStats* stats, TowerResult& out);
  void note_outcome(TowerResult& out);
  void find_bad(TowerResult& out);
  const EngineShared& shared_;
  int index_;
  Device& device_;
  Control& control_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<StateExchange> states_;
  std::vector<Variable*> variables_;  // flat order
  std::vector<GradSink> sinks_;
  Tensor unit_gradient_;  // with several units and squares
  UpdateTables tables_;
  Outcome outcome_;
  Recorder recorder_;
  std::vector<int> bucket_left_;
  std::vector<char> complete_, bucket_done_, present_here_;
  bool buckets_open_ = false;     // completing variables may release buckets
  bool held_ = false;             // no bucket before the backward pass has ended on all towers
  bool exchange_broken_ = false;  // a bucket could not be given to the exchange
  bool summed_ = false, judged_ = false, filled_ = false;  // done in this update
  UpdateKinds seen_;                                       // memory has been taken for them
  int units_ = 0;                                          // of this update on this tower
  std::vector<RowPart> leaves_;
  int last_leaf_ = -1;  // with rows
  LeafStack stack_;
  std::vector<const float*> weights_;  // by slot; null where leaves have been added up
};

}  // namespace belfry
