// SPDX-License-Identifier: MIT
#pragma once
#include <limits>

#include "belfry/allreduce/fold_types.h"
#include "belfry/autodiff/label_fault.h"
#include "belfry/device/kernel.h"

namespace belfry {

// parts -> totals, in tower order. One element.
struct SumParts {
  static constexpr const char* name = "sum_parts";
  const DevicePart* parts;
  int n;
  Totals* totals;
  BELFRY_HD void operator()(std::size_t) const {
    float w = 0, l = 0, u = 0, f = 0;
    for (int k = 0; k < n; ++k) {
      w += parts[k].weight;
      l += parts[k].loss;
      u += parts[k].units;
      f += parts[k].faults;
    }
    totals->weight = w;
    totals->units = u;
    totals->faults = f;
    totals->loss = w > 0 ? l / w : l;
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(parts, static_cast<std::size_t>(n) * sizeof(DevicePart)).writes(totals, sizeof(Totals));
  }
};

// Adds one unit's loss to its tower's part; `first` starts it. One element.
struct AddUnit {
  static constexpr const char* name = "add_unit";
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const float* mean;
  const float* weight;
  const LabelFault* fault;  // null: labels have been checked
  DevicePart* part;
  bool first;
  BELFRY_HD void operator()(std::size_t) const {
    // A negative weight is refused: as NaN it is NaN in the sum over all units.
    const float w = *weight < 0 ? kNaN : *weight,
                l = w > 0 ? w * *mean : 0.f;  // weight 0 contributes nothing, never 0 * NaN
    part->faults = (first ? 0.f : part->faults) + (fault != nullptr ? fault->found : 0.f);
    part->weight = first ? w : part->weight + w;
    part->loss = first ? l : part->loss + l;
    part->units = (first ? 0.f : part->units) + (w > 0 ? 1.f : 0.f);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(mean, sizeof(float))
        .reads(weight, sizeof(float))
        .reads(part, sizeof(DevicePart))
        .writes(part, sizeof(DevicePart));
    if (fault != nullptr) t.reads(fault, sizeof(LabelFault));
  }
};

// A part that is known beforehand. One element.
struct SetPart {
  static constexpr const char* name = "set_part";
  DevicePart* part;
  DevicePart value;
  BELFRY_HD void operator()(std::size_t) const { *part = value; }
  void touches(Touches& t, std::size_t) const { t.writes(part, sizeof(DevicePart)); }
};

}  // namespace belfry
