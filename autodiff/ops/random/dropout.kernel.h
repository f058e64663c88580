// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/pass_numbers.h"
#include "belfry/core/host_device.h"
#include "belfry/core/philox.h"
#include "belfry/device/kernel.h"

namespace belfry {

// y = x scale where the mask keeps, else 0; y may be x. Forward and backward are the same kernel:
// the mask is drawn again instead of stored.
template <class T>
struct DropoutRow {
  static constexpr const char* name = kernel_name<T>("dropout_f32", "dropout_f64");
  Philox philox;
  std::uint32_t draw, update, first_row;
  const PassNumbers* numbers;  // may be null
  float p;
  T scale;
  const T* x;
  T* y;
  std::size_t columns;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* in = x + row * columns;
    T* out = y + row * columns;
    auto global_row = static_cast<std::uint32_t>(first_row + row);
    DropoutRow f = *this;
    if (numbers != nullptr) {
      global_row += numbers->first_row;
      f.update += numbers->update;
    }
    team.each((columns + 3) / 4, [=](std::size_t quad) {
      const Philox::Words words =
          f.philox(f.draw, f.update, global_row, static_cast<std::uint32_t>(quad));
      for (std::size_t k = 0; k < 4 && quad * 4 + k < f.columns; ++k)
        out[quad * 4 + k] = unit_float(words.v[k]) >= f.p ? in[quad * 4 + k] * f.scale : T(0);
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(x, rows * columns * sizeof(T)).writes(y, rows * columns * sizeof(T));
    if (numbers != nullptr) t.reads(numbers, sizeof(PassNumbers));
  }
};

template <class Table>
void kernels_of_dropout(Table& table) {
  table.template rows<DropoutRow<float>>();
}

}  // namespace belfry
