// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// One row: y, and for backward the row's mean and 1 / sqrt(variance + eps).
template <class T>
struct LayerNormRow {
  static constexpr const char* name = kernel_name<T>("layer_norm_f32", "layer_norm_f64");
  const T *x, *weight, *bias;
  T *y, *mean, *scale;
  std::size_t columns;
  T eps;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* in = x + row * columns;
    T* out = y + row * columns;
    const T *w = weight, *b = bias;
    const T n = static_cast<T>(columns);
    const T first = team.template sum<T>(columns, [in](std::size_t c) { return in[c]; }) / n;
    // What rounding left in the mean, and the squares around it.
    const T rest =
        team.template sum<T>(columns, [in, first](std::size_t c) { return in[c] - first; }) / n;
    const T squares = team.template sum<T>(
        columns, [in, first](std::size_t c) { return (in[c] - first) * (in[c] - first); });
    const T m = first + rest, variance = squares / n - rest * rest;
    const T s = T(1) / std::sqrt(variance + eps);
    team.each(columns, [=](std::size_t c) { out[c] = ((in[c] - first) - rest) * s * w[c] + b[c]; });
    team.each(1, [=, f = *this](std::size_t) { f.mean[row] = m, f.scale[row] = s; });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, rows * columns * sizeof(T)).reads(weight, columns * sizeof(T));
    t.reads(bias, columns * sizeof(T)).writes(y, rows * columns * sizeof(T));
    t.writes(mean, rows * sizeof(T)).writes(scale, rows * sizeof(T));
  }
};

inline constexpr std::size_t kNormRows = 32;  // rows of a block: its sums are one partial row

// Row b: kNormRows rows of dx and their sums for weight and bias. With z = (x - mean) s and
// h = g weight: dx = s (h - mean(h) - z mean(h z)), dweight = sum of g z, dbias = sum of g.
// dx may be g.
template <class T>
struct LayerNormBackward {
  static constexpr const char* name =
      kernel_name<T>("layer_norm_backward_f32", "layer_norm_backward_f64");
  const T *x, *g, *weight, *mean, *scale;
  T *dx, *dweight, *dbias;  // dx may be null; the sums are [blocks, columns]
  std::size_t rows, columns;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    const std::size_t first = block * kNormRows,
                      end = first + kNormRows < rows ? first + kNormRows : rows;
    T *sw = dweight + block * columns, *sb = dbias + block * columns;
    team.each(columns, [=](std::size_t c) { sw[c] = T(0), sb[c] = T(0); });
    for (std::size_t r = first; r < end; ++r) {
      const T *in = x + r * columns, *q = g + r * columns, *w = weight;
      const T m = mean[r], s = scale[r], n = static_cast<T>(columns);
      T* out = dx == nullptr ? nullptr : dx + r * columns;
      T h = T(0), hz = T(0);
      if (out != nullptr) {
        h = team.template sum<T>(columns, [=](std::size_t c) { return q[c] * w[c]; }) / n;
        hz = team.template sum<T>(columns,
                                  [=](std::size_t c) { return q[c] * w[c] * (in[c] - m); }) *
             s / n;
      }
      team.each(columns, [=](std::size_t c) {
        const T z = (in[c] - m) * s, d = q[c];
        sw[c] += d * z;
        sb[c] += d;
      });
      if (out == nullptr) continue;
      team.each(columns, [=](std::size_t c) {
        const T z = (in[c] - m) * s;
        out[c] = s * (q[c] * w[c] - h - z * hz);
      });
    }
  }
  void touches(Touches& t, std::size_t blocks) const {
    t.reads(x, rows * columns * sizeof(T)).reads(g, rows * columns * sizeof(T));
    t.reads(weight, columns * sizeof(T)).reads(mean, rows * sizeof(T));
    t.reads(scale, rows * sizeof(T));
    if (dx != nullptr) t.writes(dx, rows * columns * sizeof(T));
    t.writes(dweight, blocks * columns * sizeof(T)).writes(dbias, blocks * columns * sizeof(T));
  }
};

template <class Table>
void kernels_of_layer_norm(Table& table) {
  table.template rows<LayerNormRow<float>>();
  table.template rows<LayerNormBackward<float>>();
}

}  // namespace belfry
