// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/allreduce/device_table.h"
#include "belfry/towers/update_tables_internal.h"

namespace belfry {
namespace {

// Device memory for `n` plain structs.
template <class T>
Tensor table(std::size_t n, Device& device) {
  return Tensor::zeros(Shape{static_cast<std::int64_t>(std::max<std::size_t>(n, 1) * sizeof(T))},
                       DType::u8, device);
}

// A variable lies in one piece, so its segments follow each other.
std::vector<SegmentRange> ranges_of(const FlatIndex& index) {
  std::vector<SegmentRange> out(index.variables().size());
  unsigned at = 0;
  for (const Segment& s : index.segments()) {
    SegmentRange& range = out[static_cast<std::size_t>(s.variable)];
    if (range.count++ == 0) range.first = at;
    ++at;
  }
  return out;
}

}  // namespace

UpdateTables::UpdateTables(const EngineShared& shared, Device& device)
    : shared_(shared), device_(device) {
  const std::size_t n = shared_.trainable.size();
  std::vector<SegmentRef> refs;
  for (const Segment& s : shared_.plan.index.segments())
    refs.push_back({s.offset, static_cast<unsigned>(s.size), s.variable});
  std::vector<int> only_part;
  const LeafPlan& leaves = shared_.plan.leaves;
  for (const LeafSource& s : leaves.sources)
    only_part.push_back(s.leaf < 0 ? -1 : leaves.part_of(s.leaf));
  const std::vector<SegmentRange> ranges = ranges_of(shared_.plan.index);
  const Settled settled(device_.main());  // after what it copies from
  segments_ = device_table(refs, device_);
  if (shared_.plan.layerwise) ranges_ = device_table(ranges, device_);
  steps_ = Tensor::zeros(Shape{static_cast<std::int64_t>(n)}, DType::f32, device_);
  scalars_ = table<UpdateScalars>(n, device_);
  plan_ = table<std::byte>(lr_at() + sizeof(float), device_);
  host_plan_ = Pinned(device_, plan_.bytes());
  if ((leaves.strict || leaves.summed) && !shared_.lone)
    only_part_ = device_table(only_part, device_);
  if (!leaves.regular) merges_ = device_table(leaves.merges, device_);
  device_.synchronize();
}

void UpdateTables::upload(const UpdateInput& in, const Decision& d) {
  device_.main().host_access(Touches().writes(host_plan_.at<void>(), plan_.bytes()));
  auto* const fold_plan = host_plan_.at<FoldPlan>();
  auto* const variable_plan = host_plan_.at<VariablePlan>(variable_plan_at());
  for (std::size_t v = 0; v < shared_.trainable.size(); ++v) {
    fold_plan[v] = shared_.fold_plan[v];
    fold_plan[v].present = d.present[v] != 0 ? 1.f : 0.f;
    variable_plan[v] = {shared_.decay[v], fold_plan[v].present};
  }
  *host_plan_.at<float>(lr_at()) = static_cast<float>(in.lr);
  device_.main().copy(plan_.raw(), host_plan_.at<void>(), plan_.bytes());
}

std::vector<float> UpdateTables::read_steps() const {
  std::vector<float> out;
  for (const double s : steps_.to_vector()) out.push_back(static_cast<float>(s));
  return out;
}

void UpdateTables::write_steps(const std::vector<float>& steps) {
  device_.main().copy(steps_.raw(), steps.data(), steps.size() * sizeof(float));
  device_.synchronize();
}

}  // namespace belfry
