// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

#include "belfry/optim/layerwise.kernel.h"
#include "belfry/towers/engine.kernel.h"
#include "belfry/towers/engine_internal.h"

namespace belfry {

// What a tower's kernels read from device memory in an update beside the flat arrays: tables that
// stay, the plan that is copied at its head, and what the kernels themselves count. One thread.
class UpdateTables {
 public:
  UpdateTables(const EngineShared& shared, Device& device);
  void upload(const UpdateInput& in, const Decision& d);  // the plan of this update

  const SegmentRef* segments() const { return as<SegmentRef>(segments_); }
  const std::uint8_t* merges() const { return as<std::uint8_t>(merges_); }  // null: not needed
  const int* only_part() const { return as<int>(only_part_); }              // null: not needed
  const FoldPlan* fold_plan() const { return as<FoldPlan>(plan_); }
  const VariablePlan* variable_plan() const {
    return reinterpret_cast<const VariablePlan*>(as<std::byte>(plan_) + variable_plan_at());
  }
  const float* lr() const { return reinterpret_cast<const float*>(as<std::byte>(plan_) + lr_at()); }
  float* steps() { return steps_.data<float>(); }
  UpdateScalars* scalars() { return as<UpdateScalars>(scalars_); }
  const SegmentRange* ranges() const { return as<SegmentRange>(ranges_); }  // with layer-wise rates
  std::vector<float> read_steps() const;
  void write_steps(const std::vector<float>& steps);

 private:
  template <class T>
  static T* as(const Tensor& t) {
    return t.defined() ? static_cast<T*>(t.raw()) : nullptr;
  }
  std::size_t variable_plan_at() const { return shared_.trainable.size() * sizeof(FoldPlan); }
  std::size_t lr_at() const {
    return variable_plan_at() + shared_.trainable.size() * sizeof(VariablePlan);
  }
  const EngineShared& shared_;
  Device& device_;
  Tensor segments_, steps_, scalars_, merges_, only_part_, ranges_;
  Tensor plan_;  // FoldPlan and VariablePlan of each variable, then the rate
  Pinned host_plan_;
};

}  // namespace belfry
