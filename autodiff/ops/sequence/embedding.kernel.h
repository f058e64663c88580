// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// Row r of y is row indices[r] of the table; NaN where there is none.
template <class T>
struct EmbeddingRow {
  static constexpr const char* name = kernel_name<T>("embedding_f32", "embedding_f64");
  const std::int32_t* indices;
  const T* table;
  T* y;
  std::size_t count, width;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const std::int32_t index = indices[row];
    const bool inside = index >= 0 && static_cast<std::size_t>(index) < count;
    const T* from = table + (inside ? static_cast<std::size_t>(index) : 0) * width;
    T* to = y + row * width;
    team.each(width, [=](std::size_t c) {
      to[c] = inside ? from[c] : std::numeric_limits<T>::quiet_NaN();
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(indices, rows * sizeof(std::int32_t)).reads(table, count * width * sizeof(T));
    t.writes(y, rows * width * sizeof(T));
  }
};

inline constexpr std::size_t kEmbeddingColumns = 64;

// Adds the rows of g to those of dtable, in order. Row b: kEmbeddingColumns columns, so that the
// order of each sum does not depend on who runs it.
template <class T>
struct EmbeddingBackward {
  static constexpr const char* name =
      kernel_name<T>("embedding_backward_f32", "embedding_backward_f64");
  const std::int32_t* indices;
  const T* g;
  T* dtable;
  std::size_t rows, count, width;
  BELFRY_HD bool inside(std::size_t r) const {
    return indices[r] >= 0 && static_cast<std::size_t>(indices[r]) < count;
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t block) const {
    const std::size_t first = block * kEmbeddingColumns, left = width - first,
                      columns = left < kEmbeddingColumns ? left : kEmbeddingColumns;
    const EmbeddingBackward f = *this;
    const auto add = [=](std::size_t r, std::size_t c) {
      f.dtable[static_cast<std::size_t>(f.indices[r]) * f.width + first + c] +=
          f.g[r * f.width + first + c];
    };
    if constexpr (std::is_same_v<Team, HostTeam>) {  // memory order
      for (std::size_t r = 0; r < rows; ++r)
        if (inside(r)) team.each(columns, [=](std::size_t c) { add(r, c); });
    } else {
      team.each(columns, [=](std::size_t c) {
        for (std::size_t r = 0; r < f.rows; ++r)
          if (f.inside(r)) add(r, c);
      });
    }
  }
  void touches(Touches& t, std::size_t) const {
    t.reads(indices, rows * sizeof(std::int32_t)).reads(g, rows * width * sizeof(T));
    t.reads(dtable, count * width * sizeof(T)).writes(dtable, count * width * sizeof(T));
  }
};

template <class Table>
void kernels_of_embedding(Table& table) {
  table.template rows<EmbeddingRow<float>>();
  table.template rows<EmbeddingBackward<float>>();
}

}  // namespace belfry
