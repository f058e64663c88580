// SPDX-License-Identifier: MIT
#pragma once
#include <belfry/device/kernel.h>

// y = x / (1 + |x|): one source, run by the CPU and, compiled by nvcc, by GPUs.
struct SoftsignForward {
  static constexpr const char* name = "softsign_forward";
  const float* x;
  float* y;
  BELFRY_HD void operator()(std::size_t i) const { y[i] = x[i] / (1 + (x[i] < 0 ? -x[i] : x[i])); }
  void touches(belfry::Touches& t, std::size_t n) const { t.reads(x, n * 4).writes(y, n * 4); }
};

// dx = g (1 - |y|)^2
struct SoftsignBackward {
  static constexpr const char* name = "softsign_backward";
  const float* g;
  const float* y;
  float* dx;
  BELFRY_HD void operator()(std::size_t i) const {
    const float d = 1 - (y[i] < 0 ? -y[i] : y[i]);
    dx[i] = g[i] * d * d;
  }
  void touches(belfry::Touches& t, std::size_t n) const {
    t.reads(g, n * 4).reads(y, n * 4).writes(dx, n * 4);
  }
};

// What belfry_add_kernels() makes kernels of.
template <class Table>
void kernels_of_softsign(Table& table) {
  table.template elements<SoftsignForward>();
  table.template elements<SoftsignBackward>();
}
