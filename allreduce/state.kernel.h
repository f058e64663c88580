// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/verdict.kernel.h"
#include "belfry/autodiff/state_term.kernel.h"

namespace belfry {

// How one element of a model's states changes.
struct StateRule {
  StateKind kind = StateKind::mean;
  float momentum = 0;  // pooled
};

// sum = sum and what a unit contributed; `first` starts it. A unit without loss weight contributes
// nothing, NaN included.
struct AddUnitStates {
  static constexpr const char* name = "add_unit_states";
  const StateRule* rules;
  const StateTerm* unit;
  const float* weight;
  StateTerm* sum;
  bool first;
  BELFRY_HD void operator()(std::size_t i) const {
    const StateTerm mine = *weight > 0 ? unit[i] : StateTerm{};
    sum[i] = first ? mine : merged(rules[i].kind, sum[i], mine);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(rules, n * sizeof(StateRule)).reads(unit, n * sizeof(StateTerm)).reads(weight, 4);
    if (!first) t.reads(sum, n * sizeof(StateTerm));
    t.writes(sum, n * sizeof(StateTerm));
  }
};

// left = left and right: two partners of the tree over leaves.
struct MergeStates {
  static constexpr const char* name = "merge_states";
  const StateRule* rules;
  StateTerm* left;
  const StateTerm* right;
  BELFRY_HD void operator()(std::size_t i) const {
    left[i] = merged(rules[i].kind, left[i], right[i]);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(rules, n * sizeof(StateRule)).reads(left, n * sizeof(StateTerm));
    t.reads(right, n * sizeof(StateTerm)).writes(left, n * sizeof(StateTerm));
  }
};

// The tree over all sources' terms, then the new values, unless the update is refused. The sources'
// terms lie `cells` apart; after source k follow merges[k] merges of the tree.
struct UpdateStates {
  static constexpr const char* name = "update_states";
  const StateRule* rules;
  const StateTerm* terms;
  const int* places;  // of each source among the terms
  const unsigned char* merges;
  int n, all;  // sources; sets of terms
  std::size_t cells;
  const Verdict* verdict;
  float *values, *seconds;

  BELFRY_HD StateTerm total(std::size_t i) const {
    StateTerm sums[32];
    int depth = 0;
    for (int k = 0; k < n; ++k) {
      StateTerm v = terms[static_cast<std::size_t>(places[k]) * cells + i];
      for (int m = 0; m < merges[k]; ++m) v = merged(rules[i].kind, sums[--depth], v);
      sums[depth++] = v;
    }
    StateTerm v;
    while (depth > 0) v = merged(rules[i].kind, sums[--depth], v);
    return v;
  }
  BELFRY_HD void operator()(std::size_t i) const {
    const StateTerm t = total(i);
    if (verdict->ok == 0 || !(t.weight > 0)) return;
    const StateRule r = rules[i];
    if (r.kind == StateKind::sum) {
      values[i] += t.value;
    } else if (r.kind != StateKind::pooled) {
      values[i] = t.value;
    } else {
      values[i] = (1 - r.momentum) * values[i] + r.momentum * t.value;
      if (t.weight > 1)
        seconds[i] = (1 - r.momentum) * seconds[i] + r.momentum * (t.second / (t.weight - 1));
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(rules, cells * sizeof(StateRule));
    t.reads(terms, static_cast<std::size_t>(all) * cells * sizeof(StateTerm));
    t.reads(places, static_cast<std::size_t>(n) * sizeof(int));
    t.reads(merges, static_cast<std::size_t>(n)).reads(verdict, sizeof(Verdict));
    t.reads(values, cells * sizeof(float)).reads(seconds, cells * sizeof(float));
    t.writes(values, cells * sizeof(float)).writes(seconds, cells * sizeof(float));
  }
};

template <class Table>
void kernels_of_state(Table& table) {
  table.template elements<AddUnitStates>();
  table.template elements<MergeStates>();
  table.template elements<UpdateStates>();
}

}  // namespace belfry
