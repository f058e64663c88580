// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "belfry/autodiff/ops/loss/label_filter.kernel.h"
#include "belfry/core/host_device.h"
#include "belfry/device/kernel.h"

namespace belfry {

// dz = (p - target) seed / weight; 0 for ignored rows.
template <class T>
struct CrossEntropyBackward {
  static constexpr const char* name =
      kernel_name<T>("cross_entropy_backward_f32", "cross_entropy_backward_f64");
  const T* probabilities;
  const std::int32_t* labels;
  const T* seed;
  const T* weight;
  T* dz;
  std::size_t classes;
  LabelFilter filter;
  T smoothing;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t row) const {
    const T* p = probabilities + row * classes;
    T* d = dz + row * classes;
    const std::int32_t label = labels[row];
    const bool dropped = filter.drops(label) || !(weight[0] > T(0));
    const T scale = dropped ? T(0) : seed[0] / weight[0];
    const auto hit = static_cast<std::size_t>(label);
    const T low = smoothing / static_cast<T>(classes), high = T(1) - smoothing + low;
    team.each(classes, [=](std::size_t c) {
      d[c] = dropped ? T(0) : (p[c] - (c == hit ? high : low)) * scale;
    });
  }
  void touches(Touches& t, std::size_t rows) const {
    t.reads(probabilities, rows * classes * sizeof(T)).reads(labels, rows * sizeof(std::int32_t));
    t.reads(seed, sizeof(T)).reads(weight, sizeof(T)).writes(dz, rows * classes * sizeof(T));
  }
};

template <class Table>
void kernels_of_cross_entropy_backward(Table& table) {
  table.template rows<CrossEntropyBackward<float>>();
}

}  // namespace belfry
