// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Rows of values go to target by index; an index that is no row is left out.
template <class T>
struct ScatterFields {
  const std::int32_t* indices;
  const T* values;
  T* target;
  std::size_t places, rows, width;  // values is [places, width], target [rows, width]
  bool add;
  BELFRY_HD bool inside(std::size_t k) const {
    return indices[k] >= 0 && static_cast<std::size_t>(indices[k]) < rows;
  }
  BELFRY_HD void put(std::size_t k, std::size_t column) const {
    T& to = target[static_cast<std::size_t>(indices[k]) * width + column];
    const T value = values[k * width + column];
    to = add ? to + value : value;
  }
  // All places of single columns; the host's loop over them.
  void put_elements() const {
    const ScatterFields f = *this;
    for (std::size_t k = 0; k < f.places; ++k) {
      const auto row = static_cast<std::size_t>(f.indices[k]);  // below 0: beyond all rows
      if (row < f.rows) f.target[row] = f.add ? f.target[row] + f.values[k] : f.values[k];
    }
  }
  void declare(Touches& t) const {
    t.reads(indices, places * sizeof(std::int32_t)).reads(values, places * width * sizeof(T));
    if (add) t.reads(target, rows * width * sizeof(T));
    t.writes(target, rows * width * sizeof(T));
  }
};

// Element i of values, where no index comes twice.
template <class T>
struct ScatterEach {
  static constexpr const char* name = kernel_name<T>("scatter_each_f32", "scatter_each_f64");
  ScatterFields<T> f;
  BELFRY_HD void operator()(std::size_t i) const {
    if (f.inside(i / f.width)) f.put(i / f.width, i % f.width);
  }
  void touches(Touches& t, std::size_t) const { f.declare(t); }
};

inline constexpr std::size_t kScatterColumns = 64;

// All places in their order. Row b: kScatterColumns columns, so that the order does not depend on
// who runs it.
template <class T>
struct ScatterInOrder {
  static constexpr const char* name =
      kernel_name<T>("scatter_in_order_f32", "scatter_in_order_f64");
  ScatterFields<T> f;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    const std::size_t first = block * kScatterColumns, left = f.width - first,
                      columns = left < kScatterColumns ? left : kScatterColumns;
    const ScatterFields<T> s = f;
    if constexpr (std::is_same_v<Team, HostTeam>) {  // memory order
      if (s.width == 1) return s.put_elements();
      for (std::size_t k = 0; k < s.places; ++k)
        if (s.inside(k)) team.each(columns, [=](std::size_t c) { s.put(k, first + c); });
    } else {
      team.each(columns, [=](std::size_t c) {
        for (std::size_t k = 0; k < s.places; ++k)
          if (s.inside(k)) s.put(k, first + c);
      });
    }
  }
  void touches(Touches& t, std::size_t) const { f.declare(t); }
};

template <class Table>
void kernels_of_scatter(Table& table) {
  table.template elements<ScatterEach<float>>();
  table.template rows<ScatterInOrder<float>>();
}

}  // namespace belfry
