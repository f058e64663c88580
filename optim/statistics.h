// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

namespace belfry {

// What one update says about the gradient's noise (McCandlish et al., "An empirical model of
// large-batch training", 2018), from the norms of the units' gradients alone:
//   mean_norm2 T = |mean|^2, unit_norm2 L = sum (W_u / W) |g_u|^2, both before l2, multipliers and
//   clipping; units U with weight > 0; weight B = W, the rows of the update.
struct NoiseSample {
  double trace = 0;      // of the covariance of one row's gradient: B (L - T) / (U - 1)
  double gradient2 = 0;  // |G|^2 of the true gradient: (U T - L) / (U - 1); may be negative
};

// Throws ConfigError when there is one unit: a single gradient has no variance. To be called at
// start-up with towers * accumulation.
void require_units_for_noise(std::int64_t units);

NoiseSample noise_sample(double mean_norm2, double unit_norm2, std::int64_t units, double weight);

// Noise scale and signal-to-noise ratio over updates: trace and |G|^2 are smoothed apart (decay
// 0.99) and then divided, for the ratio of one update's values has no mean. One thread.
class NoiseScale {
 public:
  static constexpr double kDecay = 0.99;

  // Updates with one unit of weight > 0 (a short last batch) or non-finite norms are left out.
  void observe(double mean_norm2, double unit_norm2, std::int64_t units, double weight);
  std::int64_t samples() const { return samples_; }
  double trace() const;      // bias-corrected; NaN before the first sample
  double gradient2() const;  // the same
  // The batch, in rows, at which noise and signal are equal; infinity where |G|^2 <= 0 (no signal
  // seen), NaN before the first sample.
  double noise_scale() const;
  // |G|^2 over the variance of the last update's mean gradient, at least 0.
  double snr() const;

  std::vector<double> state() const;  // for checkpoints
  // Throws CheckpointError when `state` is not one of state()'s.
  void restore(const std::vector<double>& state);

 private:
  std::int64_t samples_ = 0;
  double trace_ = 0, gradient2_ = 0, weight_ = 0;
};

}  // namespace belfry
