// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <type_traits>

#include "belfry/core/host_device.h"
#include "belfry/device/half.h"
#include "belfry/device/host_kernels.h"
#include "belfry/device/stream.h"
#include "belfry/device/team.h"

// Kernels from one source for every backend. A functor is a trivially copyable struct with
//   static constexpr const char* name = "relu_forward";   (templates: name_of<T>("...") per scalar)
//   BELFRY_HD void operator()(size_t i) const;             element form: indices are independent
//   template <class Team> BELFRY_HD void operator()(Team& team, size_t row) const;      row form
//   void touches(Touches& t, size_t n) const;              the byte ranges that n indices touch
//   template <class V> BELFRY_HD void arrays(V& v);   optional: run_packets.h
// Headers holding functors are named *.kernel.h, include the standard library only, and are
// compiled by nvcc in CI. Nothing is contracted but what says multiply_add.
namespace belfry {

template <class F>
void host_elements(const void* functor, std::size_t begin, std::size_t end) {
  const F f = *static_cast<const F*>(functor);  // a copy: its fields stay in registers
#pragma GCC ivdep
  for (std::size_t i = begin; i < end; ++i) f(i);
}

template <class F>
void host_rows(const void* functor, std::size_t begin, std::size_t end) {
  const F f = *static_cast<const F*>(functor);
  HostTeam team;
  for (std::size_t r = begin; r < end; ++r) f(team, r);
}

template <class F>
void functor_touches(const void* functor, std::size_t n, Touches& t) {
  static_cast<const F*>(functor)->touches(t, n);
}

// Puts f(0..n-1) on the stream; any order, concurrently.
template <class F>
void launch_elements(Stream& s, std::size_t n, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>);
  static const HostBody body = host_body(typeid(F), host_elements<F>);
  if (n != 0) s.launch({F::name, &f, sizeof f, n, false, body, functor_touches<F>});
}

// Puts f(team, 0..rows-1) on the stream; rows in any order, concurrently.
template <class F>
void launch_rows(Stream& s, std::size_t rows, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>);
  static const HostBody body = host_body(typeid(F), host_rows<F>);
  if (rows != 0) s.launch({F::name, &f, sizeof f, rows, true, body, functor_touches<F>});
}

// Kernel names carry the scalar: kernel_name<T>("relu_f32", "relu_f64").
template <class T>
constexpr const char* kernel_name(const char* f32, const char* f64) {
  return std::is_same_v<T, double> ? f64 : f32;
}

}  // namespace belfry
