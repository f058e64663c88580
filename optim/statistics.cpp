// SPDX-License-Identifier: MIT
#include "belfry/optim/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void require_units_for_noise(std::int64_t units) {
  if (units >= 2) return;
  throw ConfigError(
      ErrorText{.what = "statistics need the variance between units (towers * accumulate)",
                .found = std::to_string(units) + (units == 1 ? " unit" : " units"),
                .expected = "at least 2",
                .fix = "use more towers, accumulate > 1, or statistics = 'none'"});
}

NoiseSample noise_sample(double mean_norm2, double unit_norm2, std::int64_t units, double weight) {
  require_units_for_noise(units);
  const double u = static_cast<double>(units);
  return {.trace = weight * (unit_norm2 - mean_norm2) / (u - 1),
          .gradient2 = (u * mean_norm2 - unit_norm2) / (u - 1)};
}

void NoiseScale::observe(double mean_norm2, double unit_norm2, std::int64_t units, double weight) {
  if (units < 2 || !std::isfinite(mean_norm2) || !std::isfinite(unit_norm2) || !(weight > 0))
    return;
  const NoiseSample s = noise_sample(mean_norm2, unit_norm2, units, weight);
  trace_ = kDecay * trace_ + (1 - kDecay) * s.trace;
  gradient2_ = kDecay * gradient2_ + (1 - kDecay) * s.gradient2;
  weight_ = weight;
  ++samples_;
}

double NoiseScale::trace() const {
  return samples_ == 0 ? kNaN : trace_ / (1 - std::pow(kDecay, static_cast<double>(samples_)));
}

double NoiseScale::gradient2() const {
  return samples_ == 0 ? kNaN : gradient2_ / (1 - std::pow(kDecay, static_cast<double>(samples_)));
}

double NoiseScale::noise_scale() const {
  if (samples_ == 0) return kNaN;
  if (!(gradient2_ > 0)) return kInfinity;
  return std::max(trace_, 0.0) / gradient2_;  // L - T of equal units may round below 0
}

double NoiseScale::snr() const {
  if (samples_ == 0) return kNaN;
  const double signal = std::max(gradient2_, 0.0);
  if (!(trace_ > 0)) return signal > 0 ? kInfinity : 0;
  return signal * weight_ / trace_;
}

std::vector<double> NoiseScale::state() const {
  return {static_cast<double>(samples_), trace_, gradient2_, weight_};
}

void NoiseScale::restore(const std::vector<double>& state) {
  const auto finite = [](double x) { return std::isfinite(x); };
  if (state.size() != 4 || !std::all_of(state.begin(), state.end(), finite) || state[0] < 0 ||
      state[0] > 9e15 || state[0] != std::floor(state[0]))
    throw CheckpointError(ErrorText{.what = "noise statistics",
                                    .found = std::to_string(state.size()) + " values",
                                    .expected = "4 finite numbers, the first a count"});
  samples_ = static_cast<std::int64_t>(state[0]);
  trace_ = state[1];
  gradient2_ = state[2];
  weight_ = state[3];
}

}  // namespace belfry
