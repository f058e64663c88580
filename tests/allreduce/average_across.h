// SPDX-License-Identifier: MIT
// Lists for average_gradients over the members of a group, for the CPU and for GPUs.
#pragma once
#include <string>
#include <vector>

#include "belfry/allreduce/average_gradients.h"
#include "belfry/core/philox.h"

namespace belfry::test {

inline std::vector<double> numbers(std::size_t n, std::uint64_t seed) {
  std::vector<double> out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(static_cast<double>((i + 1) * (seed * 2654435761u + 12345) % 100003) / 7919.0 -
                  6.0);
  return out;
}

// What member m of a group brings: `counts[m]` lists, numbered through the group. Variable "none"
// is absent everywhere, "some" on the second list only.
inline std::vector<GradientList> lists_of(const std::vector<int>& counts, int m, DType type,
                                          Device& device, bool partial) {
  int first = 0;
  for (int k = 0; k < m; ++k) first += counts[static_cast<std::size_t>(k)];
  std::vector<GradientList> out;
  for (int k = first; k < first + counts[static_cast<std::size_t>(m)]; ++k) {
    const auto seed = static_cast<std::uint64_t>(k);
    GradientList list;
    list.emplace_back(Tensor::from(numbers(1001, seed + 1), Shape{7, 143}, type, device), "w");
    list.emplace_back(Tensor(), "none");
    list.emplace_back(Tensor::from(numbers(1, seed + 31), Shape{}, type, device), "scalar");
    list.emplace_back(
        partial && k == 1 ? Tensor() : Tensor::from(numbers(5, seed + 67), Shape{5}, type, device),
        "some");
    out.push_back(std::move(list));
  }
  return out;
}

struct Averaged {
  std::vector<std::string> names, skipped;
  std::vector<std::vector<double>> mean, square;
  bool operator==(const Averaged&) const = default;
};

inline Averaged values_of(const AveragedGradients& a) {
  Averaged out{{}, a.skipped, {}, {}};
  for (const GradientPair& p : a.mean) {
    out.names.push_back(p.variable + p.gradient.shape().text() +
                        std::string(name_of(p.gradient.dtype())));
    out.mean.push_back(p.gradient.to_vector());
  }
  for (const GradientPair& p : a.square) out.square.push_back(p.gradient.to_vector());
  return out;
}

// The same lists in one call.
inline Averaged alone(const std::vector<int>& counts, DType type, Device& device,
                      const AverageOptions& options, bool partial) {
  std::vector<GradientList> all;
  for (int m = 0; m < static_cast<int>(counts.size()); ++m)
    for (GradientList& list : lists_of(counts, m, type, device, partial))
      all.push_back(std::move(list));
  return values_of(average_gradients(all, options));
}

}  // namespace belfry::test
