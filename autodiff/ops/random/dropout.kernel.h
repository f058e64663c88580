// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "belfry/autodiff/ops/random/dropout_draw.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// y = x scale where the mask keeps, else 0; y may be x. Forward and backward are the same kernel:
// the mask is drawn again instead of stored.
template <class T>
struct DropoutRow {
  static constexpr const char* name = kernel_name<T>("dropout_f32", "dropout_f64");
  DropoutDraw draw;
  T scale;
  const T* x;
  T* y;
  std::size_t columns;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* in = x + row * columns;
    T* out = y + row * columns;
    const DropoutRow f = *this;
    const DropoutDraw d = draw.of_row(row);
    // Whole quads have no branch: vector code.
    const std::size_t whole = columns / 4;
    team.each(whole, [=](std::size_t quad) {
      const Philox::Words words = d.words(quad);
      const T *a = in + quad * 4, m = f.scale;
      T* b = out + quad * 4;
      const T v0 = a[0] * m, v1 = a[1] * m, v2 = a[2] * m, v3 = a[3] * m;
      b[0] = d.keeps(words.v[0]) ? v0 : T(0);
      b[1] = d.keeps(words.v[1]) ? v1 : T(0);
      b[2] = d.keeps(words.v[2]) ? v2 : T(0);
      b[3] = d.keeps(words.v[3]) ? v3 : T(0);
    });
    team.each(columns % 4, [=](std::size_t k) {
      const Philox::Words words = d.words(whole);
      const std::size_t i = whole * 4 + k;
      out[i] = d.keeps(words.v[k]) ? in[i] * f.scale : T(0);
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, rows * columns * sizeof(T)).writes(y, rows * columns * sizeof(T));
    if (draw.numbers != nullptr) t.reads(draw.numbers, sizeof(PassNumbers));
  }
};

template <class Table>
void kernels_of_dropout(Table& table) {
  table.template rows<DropoutRow<float>>();
}

}  // namespace belfry
