// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/kernel.h"

namespace belfry {

// acc += term: a further term of a gradient.
template <class T>
struct AddTerm {
  static constexpr const char* name = kernel_name<T>("add_term_f32", "add_term_f64");
  T* acc;
  const T* term;
  BELFRY_HD void operator()(std::size_t i) const { acc[i] += term[i]; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.updates(acc).reads(term);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(acc, n * sizeof(T)).reads(term, n * sizeof(T)).writes(acc, n * sizeof(T));
  }
};

// out = a + b, where the first term's memory is shared with another gradient.
template <class T>
struct SumTerms {
  static constexpr const char* name = kernel_name<T>("sum_terms_f32", "sum_terms_f64");
  T* out;
  const T *a, *b;
  BELFRY_HD void operator()(std::size_t i) const { out[i] = a[i] + b[i]; }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.reads(a).reads(b).writes(out);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(a, n * sizeof(T)).reads(b, n * sizeof(T)).writes(out, n * sizeof(T));
  }
};

// The gradient that backward starts from when none is given.
template <class T>
struct FillOne {
  static constexpr const char* name = kernel_name<T>("fill_one_f32", "fill_one_f64");
  T* out;
  BELFRY_HD void operator()(std::size_t i) const { out[i] = T(1); }
  template <class V>
  BELFRY_HD void arrays(V& v) {
    v.writes(out);
  }
  void touches(Touches& t, std::size_t n) const { t.writes(out, n * sizeof(T)); }
};

template <class Table>
void kernels_of_tape(Table& table) {
  table.template elements<AddTerm<float>>();
  table.template elements<SumTerms<float>>();
  table.template elements<FillOne<float>>();
}

}  // namespace belfry
