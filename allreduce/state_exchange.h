// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/leaf_plan.h"
#include "belfry/allreduce/state.kernel.h"
#include "belfry/autodiff/state.h"
#include "belfry/device/communicator.h"

namespace belfry {

// A named array of a model's states and where it lies among them.
struct StateArray {
  std::string name;
  Shape shape;
  std::size_t at = 0;
};

// One tower's copy of its model's states: binds them, collects what the units of an update
// contribute, exchanges it behind the gradients and folds it in their tree, so that all copies have
// the same bits. It is small: every tower gets all of it. All towers make the same calls in the
// same order; used by the tower's thread; asynchronous on the device's main stream. An aborted
// group throws CommError from exchange().
class StateExchange {
 public:
  // With the arrays' starting values. Two arrays of one name are a ConfigError. `collectives`: the
  // stream of the communicator's other collectives, the main stream or one beside it.
  StateExchange(std::vector<ModuleState*> states, const LeafPlan& leaves, Device& device,
                Communicator& comm, Stream& collectives);

  // What it takes of its device's memory, for so many elements of all states together.
  static double bytes_for(double cells, const LeafPlan& leaves);

  void start();  // of an update: nothing has been contributed
  void start_unit();
  // What has been contributed since goes into `slot`. `weight`: of the unit's loss, on the device.
  void end_unit(int slot, bool first, const float* weight);
  void clear(int slot);                // a leaf without rows
  void merge(int left);                // slots left and left + 1
  void exchange(std::int64_t update);  // once all buckets are issued, whose marks order the terms
  void apply(const Verdict* verdict);  // after exchange(): the new values

  // Between updates; arrays as in arrays(), one after the other.
  const std::vector<StateArray>& arrays() const { return arrays_; }
  std::vector<float> read();
  void write(const std::vector<float>& values);

 private:
  StateTerm* terms(int slot) const;
  void await();  // the main stream, for the exchange under way
  std::vector<StateArray> arrays_;
  std::size_t cells_ = 0;
  LeafPlan leaves_;
  Device& device_;
  Communicator& comm_;
  Stream& collectives_;
  std::unique_ptr<Event> gathered_;
  bool under_way_ = false;
  Tensor rules_, places_, merges_;
  Tensor values_;  // of all states, then the variances of those that are pooled
  Tensor unit_, slots_, all_;
};

}  // namespace belfry
