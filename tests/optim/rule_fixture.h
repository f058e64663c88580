// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "belfry/core/philox.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/optim/layerwise.kernel.h"
#include "belfry/optim/rule.h"

namespace belfry::test {

// n draws of a standard normal, the k-th set of them.
inline std::vector<float> normals(std::size_t n, std::uint32_t k, float scale = 1) {
  const Philox philox = philox_key(17, Purpose::test);
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Philox::Words w = philox(static_cast<std::uint32_t>(i), k, 0, 0);
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(unit_float(w.v[0]))));
    out[i] = scale * static_cast<float>(radius * std::cos(6.283185307179586 * unit_float(w.v[1])));
  }
  return out;
}

inline std::vector<float> squares_of(const std::vector<float>& g) {
  std::vector<float> out(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) out[i] = g[i] * g[i];
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Parameters and state under one rule on a CPU device. `cuts` are where update() splits the flat
// range into segments.
struct RuleRun {
  const Rule& rule;
  std::unique_ptr<Device> device;
  std::vector<float> param;
  std::vector<std::vector<float>> state;
  std::vector<std::size_t> cuts;

  RuleRun(const Rule& r, std::vector<float> initial, Executor executor = Executor::in_place,
          int threads = 1)
      : rule(r), device(make_cpu_device(0, threads, executor)), param(std::move(initial)) {
    state.assign(rule.state_names().size(), std::vector<float>(param.size(), 0.0f));
  }

  void update(const std::vector<float>& grad, UpdateScalars scalars,
              const std::vector<float>& square = {}) {
    std::vector<std::size_t> ends = cuts;
    ends.push_back(param.size());
    std::vector<SegmentRef> segments;
    for (std::size_t begin = 0; const std::size_t end : ends) {
      segments.push_back({begin, static_cast<unsigned>(end - begin), 0});
      begin = end;
    }
    UpdateArgs args{.rows = segments.size(),
                    .segments = segments.data(),
                    .size = param.size(),
                    .param = param.data(),
                    .grad = grad.data(),
                    .square = square.empty() ? nullptr : square.data(),
                    .scalars = &scalars,
                    .variables = 1};
    for (std::size_t k = 0; k < state.size(); ++k) args.state[k] = state[k].data();
    std::vector<SegmentNorms> norms(segments.size());
    const SegmentRange range{0, static_cast<unsigned>(segments.size())};
    if (rule.layerwise()) {
      rule.measure(device->main(), args, norms.data());
      launch_rows(device->main(), 1, ScaleRates{norms.data(), norms.size(), &range, &scalars});
    }
    rule.update(device->main(), args);
    device->synchronize();
  }
};

// The same in double, by Rule::reference().
struct ReferenceRun {
  const Rule& rule;
  std::vector<double> param, state;

  ReferenceRun(const Rule& r, const std::vector<float>& initial)
      : rule(r),
        param(initial.begin(), initial.end()),
        state(initial.size() * rule.state_names().size(), 0.0) {}

  void update(const std::vector<float>& grad, UpdateScalars scalars,
              const std::vector<float>& square = {}) {
    const std::size_t states = rule.state_names().size();
    const auto at = [&](std::size_t i) { return state.data() + i * states; };
    if (rule.layerwise()) {
      double direction = 0, norm = 0;
      for (std::size_t i = 0; i < param.size(); ++i) {
        const double u = rule.reference_direction(param[i], grad[i], at(i), scalars);
        direction += u * u;
        norm += param[i] * param[i];
      }
      if (direction > 0 && norm > 0) scalars.lr *= static_cast<float>(std::sqrt(norm / direction));
    }
    for (std::size_t i = 0; i < param.size(); ++i)
      rule.reference(param[i], grad[i], rule.wants_squares() ? square[i] : 0, at(i), scalars);
  }
};

// The largest |a - b| / (1 + |b|).
inline double distance(const std::vector<float>& a, const std::vector<double>& b) {
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]) / (1 + std::abs(b[i]));
    if (!(d <= out)) out = d;  // NaN counts as the largest
  }
  return out;
}

}  // namespace belfry::test
