// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "belfry/device/kernel.h"

namespace belfry {

// How what the units of an update contribute to an element of a state becomes its new value:
// mean: their mean by weight; sum: added to the old value; equal: all give the same, one is taken;
// pooled: mean and variance over all values the units have seen, as moving averages.
enum class StateKind : std::uint8_t { mean, sum, equal, pooled };

// What some units have contributed to one element. `second`, pooled only: the sum of squared
// differences from the mean `value` of `weight` values. Weight 0: nothing yet.
struct StateTerm {
  float value = 0, second = 0, weight = 0;
};

// Both contributions as one. Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm
// for computing sample variances", 1979.
BELFRY_HD inline StateTerm merged(StateKind kind, const StateTerm& a, const StateTerm& b) {
  if (!(b.weight > 0)) return a;
  if (!(a.weight > 0)) return b;
  const double m = static_cast<double>(a.weight), n = static_cast<double>(b.weight);
  const double x = static_cast<double>(a.value), y = static_cast<double>(b.value);
  const float weight = static_cast<float>(m + n);
  if (kind == StateKind::equal) return {a.value, 0, weight};
  if (kind == StateKind::sum) return {static_cast<float>(x + y), 0, weight};
  const double apart = y - x, both = m + n;
  const double second = static_cast<double>(a.second) + static_cast<double>(b.second) +
                        apart * apart * (m * n / both);
  return {static_cast<float>(x + apart * (n / both)), static_cast<float>(second), weight};
}

// terms[i] gets a further contribution.
struct ContributeState {
  static constexpr const char* name = "contribute_state";
  StateKind kind;
  const float *value, *second;  // second null unless pooled
  float weight;
  StateTerm* terms;
  BELFRY_HD void operator()(std::size_t i) const {
    terms[i] = merged(kind, terms[i], {value[i], second == nullptr ? 0.f : second[i], weight});
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(value, n * sizeof(float)).reads(terms, n * sizeof(StateTerm));
    if (second != nullptr) t.reads(second, n * sizeof(float));
    t.writes(terms, n * sizeof(StateTerm));
  }
};

template <class Table>
void kernels_of_state_term(Table& table) {
  table.template elements<ContributeState>();
}

}  // namespace belfry
