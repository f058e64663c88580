// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/verdict.kernel.h"
#include "belfry/autodiff/pass_numbers.h"
#include "belfry/device/kernel.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// What an update does with one variable; copied to the device at the head of the step.
struct VariablePlan {
  float decay = 0;
  float present = 0;
};

// What the host learns of an update, once, when it ends.
struct DeviceOutcome {
  Verdict verdict;
  Totals totals;
  LabelFault fault;
};

// The scalars of the rule, and the count of applied updates of each variable that takes part; none
// does when the update is refused.
struct FillScalars {
  static constexpr const char* name = "fill_scalars";
  const VariablePlan* plan;
  const Verdict* verdict;
  const float* lr;
  float* steps;
  UpdateScalars* scalars;
  BELFRY_HD void operator()(std::size_t v) const {
    const bool active = plan[v].present != 0 && verdict->ok != 0;
    if (active) steps[v] += 1;
    scalars[v].active = active ? 1.f : 0.f;
    scalars[v].lr = *lr;
    scalars[v].decay = plan[v].decay;
    scalars[v].clip = verdict->clip;
    scalars[v].step = steps[v];
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(plan, n * sizeof(VariablePlan))
        .reads(verdict, sizeof(Verdict))
        .reads(lr, sizeof(float));
    t.reads(steps, n * sizeof(float))
        .writes(steps, n * sizeof(float))
        .writes(scalars, n * sizeof(UpdateScalars));
  }
};

struct SetNumbers {
  static constexpr const char* name = "set_numbers";
  PassNumbers* to;
  PassNumbers value;
  BELFRY_HD void operator()(std::size_t) const { *to = value; }
  void touches(Touches& t, std::size_t) const { t.writes(to, sizeof *to); }
};

// x /= *w: s = W g back to the gradient of the mean.
struct DivideBy {
  static constexpr const char* name = "divide_by";
  float* x;
  const float* w;
  BELFRY_HD void operator()(std::size_t i) const { x[i] = *w > 0 ? x[i] / *w : 0.f; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.updates(x);
  }
  void touches(Touches& t, std::size_t n) const { t.reads(x, n * 4).reads(w, 4).writes(x, n * 4); }
};

template <class Table>
void kernels_of_engine(Table& table) {
  table.template elements<FillScalars>();
  table.template elements<SetNumbers>();
  table.template elements<DivideBy>();
}

}  // namespace belfry
