// SPDX-License-Identifier: MIT
#include "belfry/optim/statistics.h"

#include <cmath>

#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

// Standard normals by Box and Muller, four a Philox call.
class Normals {
 public:
  explicit Normals(std::uint32_t stream) : stream_(stream) {}
  double next() {
    if (used_ == 4) {
      const Philox::Words w = philox_(count_++, stream_, 0, 0);
      for (int pair = 0; pair < 2; ++pair) {
        const double u = 1 - static_cast<double>(unit_float(w.v[2 * pair]));
        const double angle = 6.283185307179586 * unit_float(w.v[2 * pair + 1]);
        const double radius = std::sqrt(-2 * std::log(u));
        ready_[2 * pair] = radius * std::cos(angle);
        ready_[2 * pair + 1] = radius * std::sin(angle);
      }
      used_ = 0;
    }
    return ready_[used_++];
  }

 private:
  Philox philox_ = philox_key(5, Purpose::test);
  std::uint32_t stream_, count_ = 0;
  double ready_[4] = {};
  int used_ = 4;
};

struct Norms {
  double mean = 0, unit = 0;
};

// One update of `dims` independent gradients with mean 0.3 and deviation 2 a row, shard sizes
// `rows` a tower.
Norms simulate(Normals& normals, const std::vector<int>& rows, int dims) {
  double batch = 0;
  for (const int b : rows) batch += b;
  Norms out;
  for (int d = 0; d < dims; ++d) {
    double mean = 0;
    for (const int b : rows) {
      double g = 0;
      for (int i = 0; i < b; ++i) g += 0.3 + 2 * normals.next();
      mean += g / batch;
      out.unit += b / batch * (g / b) * (g / b);
    }
    out.mean += mean * mean;
  }
  return out;
}

}  // namespace

TEST_CASE("normals of the simulation are normal", "[optim]") {
  Normals normals(9);
  double m1 = 0, m2 = 0, m4 = 0;
  const int n = 400000;
  for (int i = 0; i < n; ++i) {
    const double x = normals.next();
    m1 += x / n;
    m2 += x * x / n;
    m4 += x * x * x * x / n;
  }
  CHECK(std::abs(m1) < 0.006);
  CHECK(m2 == Approx(1).margin(0.01));
  CHECK(m4 == Approx(3).margin(0.08));
}

TEST_CASE("F24: noise scale of a known distribution is 44.4 +- 3", "[optim]") {
  // sigma^2 / mu^2 = 44.4 for each of the 64 dimensions, so for their sums too.
  const double truth = 4 / 0.09;
  for (const auto& rows : {std::vector<int>(4, 32), {40, 32, 32, 24}}) {
    Normals normals(rows[0] == 32 ? 1 : 2);
    NoiseScale noise;
    for (int step = 0; step < 800; ++step) {
      const Norms n = simulate(normals, rows, 64);
      noise.observe(n.mean, n.unit, 4, 128);
    }
    CHECK(noise.samples() == 800);
    CHECK(noise.noise_scale() == Approx(truth).margin(3));
    CHECK(noise.trace() / 64 == Approx(4).epsilon(0.03));
    CHECK(noise.gradient2() / 64 == Approx(0.09).epsilon(0.06));
    CHECK(noise.snr() == Approx(128 * 0.09 / 4).epsilon(0.08));
  }
}

TEST_CASE("noise: exact on two units", "[optim]") {
  // Units 1 and 3 of equal weight, B = 8: T = 4, L = 5.
  const NoiseSample s = noise_sample(4, 5, 2, 8);
  CHECK(s.trace == 8);
  CHECK(s.gradient2 == 3);
  NoiseScale noise;
  noise.observe(4, 5, 2, 8);
  CHECK(noise.trace() == Approx(8).epsilon(1e-12));  // the bias of a young average is corrected
  CHECK(noise.gradient2() == Approx(3).epsilon(1e-12));
  CHECK(noise.noise_scale() == Approx(8.0 / 3).epsilon(1e-12));
  CHECK(noise.snr() == Approx(3).epsilon(1e-12));
}

TEST_CASE("noise: one unit is refused with the reason", "[optim]") {
  for (const std::int64_t units : {1, 0}) {
    CHECK_THROWS_AS(require_units_for_noise(units), ConfigError);
    CHECK_THROWS_AS(noise_sample(1, 1, units, 8), ConfigError);
  }
  CHECK_NOTHROW(require_units_for_noise(2));
  try {
    require_units_for_noise(1);
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    CHECK(text.find("variance between units") != text.npos);
    CHECK(text.find("found 1 unit, expected at least 2") != text.npos);
  }
}

TEST_CASE("noise: what cannot be used leaves no trace", "[optim]") {
  NoiseScale noise;
  CHECK(std::isnan(noise.noise_scale()));
  CHECK(std::isnan(noise.snr()));
  noise.observe(4, 5, 1, 8);  // a short last batch on one tower
  noise.observe(std::nan(""), 5, 2, 8);
  noise.observe(4, INFINITY, 2, 8);
  noise.observe(4, 5, 2, 0);
  CHECK(noise.samples() == 0);
  noise.observe(1, 3, 2, 8);  // |G|^2 = -1: no signal
  CHECK(std::isinf(noise.noise_scale()));
  CHECK(noise.snr() == 0);
  NoiseScale exact;
  exact.observe(2, 2, 4, 8);  // equal units: no noise
  CHECK(exact.noise_scale() == 0);
  CHECK(std::isinf(exact.snr()));
}

TEST_CASE("noise: state survives a checkpoint bit for bit", "[optim]") {
  NoiseScale a, b;
  for (int i = 0; i < 10; ++i) a.observe(4 + i, 6 + 2 * i, 3, 30);
  b.restore(a.state());
  for (int i = 0; i < 10; ++i) {
    a.observe(5, 7, 3, 30);
    b.observe(5, 7, 3, 30);
  }
  CHECK(a.state() == b.state());
  CHECK(a.noise_scale() == b.noise_scale());
  CHECK_THROWS_AS(b.restore({1, 2, 3}), CheckpointError);
  CHECK_THROWS_AS(b.restore({1.5, 2, 3, 4}), CheckpointError);
  CHECK_THROWS_AS(b.restore({-1, 2, 3, 4}), CheckpointError);
  CHECK_THROWS_AS(b.restore({1, std::nan(""), 3, 4}), CheckpointError);
}

}  // namespace belfry
