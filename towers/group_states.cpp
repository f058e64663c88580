// SPDX-License-Identifier: MIT
// The modules' states of a group: every tower has a copy with the same bits.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/towers/group_internal.h"

namespace belfry {

std::vector<GroupArray> TowerGroupBase::Impl::states() {
  std::vector<GroupArray> out;
  StateExchange* const first = towers[0]->states();
  if (first == nullptr) return out;
  const std::vector<float> values = first->read();
  for (const StateArray& a : first->arrays()) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(a.at);
    out.push_back({kStateKind,
                   a.name,
                   a.shape,
                   {begin, begin + static_cast<std::ptrdiff_t>(a.shape.size())}});
  }
  return out;
}

std::vector<float> TowerGroupBase::Impl::with_states(const std::vector<GroupArray>& arrays) {
  std::vector<float> values;
  StateExchange* const first = towers[0]->states();
  for (const GroupArray& a : arrays) {
    if (a.kind != kStateKind) continue;
    const StateArray* place = nullptr;
    if (first != nullptr)
      for (const StateArray& known : first->arrays())
        if (known.name == a.variable) place = &known;
    if (place == nullptr)
      throw CheckpointError(
          ErrorText{.what = "state '" + a.variable + "'", .found = "no such state in the model"});
    if (!(place->shape == a.shape) || a.values.size() != static_cast<std::size_t>(a.shape.size()))
      throw CheckpointError(ErrorText{.what = "state '" + a.variable + "'",
                                      .found = "shape " + a.shape.text() + " with " +
                                               std::to_string(a.values.size()) + " values",
                                      .expected = place->shape.text()});
    if (values.empty()) values = first->read();
    std::copy(a.values.begin(), a.values.end(),
              values.begin() + static_cast<std::ptrdiff_t>(place->at));
  }
  return values;
}

// Pooled statistics mean that rows see each other in training.
void TowerGroupBase::Impl::log_states() const {
  const std::vector<ModuleState*> all = towers[0]->module().states();
  const auto pooled = std::find_if(
      all.begin(), all.end(), [](const ModuleState* s) { return s->kind() == StateKind::pooled; });
  if (pooled == all.end() || shared.plan.leaves.strict) return;
  shared.context->logger().info(
      "{}: normalised over the rows of each backward pass, so results depend on the number of "
      "towers (here {}) and of micro-batches; reduce = \"strict\" gives the same for any number",
      (*pooled)->name(), towers.size());
}

}  // namespace belfry
