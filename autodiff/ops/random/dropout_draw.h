// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/pass_numbers.h"
#include "belfry/core/host_device.h"
#include "belfry/core/philox.h"

namespace belfry {

// What a kernel that drops elements needs to draw its mask, in forward and again in backward: word
// k of quad q of a row decides over the row's element 4 q + k.
struct DropoutDraw {
  Philox philox;
  std::uint32_t draw = 0, update = 0, first_row = 0;
  const PassNumbers* numbers = nullptr;  // may be null
  float p = 0;                           // 0: nothing is dropped

  // The same for one row of the pass, with a recorded pass's numbers added; in kernels.
  BELFRY_HD DropoutDraw of_row(std::size_t row) const {
    DropoutDraw d = *this;
    d.first_row += static_cast<std::uint32_t>(row);
    if (numbers != nullptr) {
      d.update += numbers->update;
      d.first_row += numbers->first_row;
    }
    return d;
  }
  BELFRY_HD Philox::Words words(std::size_t quad) const {
    return philox(draw, update, first_row, static_cast<std::uint32_t>(quad));
  }
  BELFRY_HD bool keeps(std::uint32_t word) const { return unit_float(word) >= p; }
};

}  // namespace belfry
