// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// winners[row] = the last place with that index; other rows are left alone.
struct LastPlaces {
  static constexpr const char* name = "last_places";
  const std::int32_t* indices;
  std::int32_t* winners;
  std::size_t places, rows;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t) const {
    const LastPlaces f = *this;
    team.each(1, [=](std::size_t) {
      for (std::size_t k = 0; k < f.places; ++k)
        if (f.indices[k] >= 0 && static_cast<std::size_t>(f.indices[k]) < f.rows)
          f.winners[f.indices[k]] = static_cast<std::int32_t>(k);
    });
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(indices, places * sizeof *indices).writes(winners, rows * sizeof *winners);
  }
};

// dvalues[k] = g[indices[k]], or 0 where another place counts or there is no such row. Without
// winners every place counts.
template <class T>
struct GatherPlaces {
  static constexpr const char* name = kernel_name<T>("gather_places_f32", "gather_places_f64");
  const std::int32_t* indices;
  const std::int32_t* winners;  // may be null
  const T* g;
  T* dvalues;
  std::size_t places, rows, width;
  BELFRY_HD void operator()(std::size_t i) const {
    const std::size_t k = i / width;
    const std::int32_t row = indices[k];
    const bool inside = row >= 0 && static_cast<std::size_t>(row) < rows;
    const bool counts =
        inside && (winners == nullptr || winners[row] == static_cast<std::int32_t>(k));
    dvalues[i] = counts ? g[static_cast<std::size_t>(row) * width + i % width] : T(0);
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(indices, places * sizeof *indices).reads(g, rows * width * sizeof(T));
    if (winners != nullptr) t.reads(winners, rows * sizeof *winners);
    t.writes(dvalues, n * sizeof(T));
  }
};

// Row indices[k] of x = 0, once: at the winning place, or where every place has another row.
template <class T>
struct ClearRows {
  static constexpr const char* name = kernel_name<T>("clear_rows_f32", "clear_rows_f64");
  const std::int32_t* indices;
  const std::int32_t* winners;  // may be null
  T* x;
  std::size_t places, rows, width;
  BELFRY_HD void operator()(std::size_t i) const {
    const std::size_t k = i / width;
    const std::int32_t row = indices[k];
    if (row < 0 || static_cast<std::size_t>(row) >= rows) return;
    if (winners == nullptr || winners[row] == static_cast<std::int32_t>(k))
      x[static_cast<std::size_t>(row) * width + i % width] = T(0);
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(indices, places * sizeof *indices).writes(x, rows * width * sizeof(T));
    if (winners != nullptr) t.reads(winners, rows * sizeof *winners);
  }
};

template <class Table>
void kernels_of_scatter_backward(Table& table) {
  table.template rows<LastPlaces>();
  table.template elements<GatherPlaces<float>>();
  table.template elements<ClearRows<float>>();
}

}  // namespace belfry
