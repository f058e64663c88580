// SPDX-License-Identifier: MIT
// polynomial, inverse_sqrt, one_cycle and wsd at updates worked out by hand.
#include <numbers>

#include "belfry/core/error.h"
#include "belfry/optim/schedules/inverse_sqrt.h"
#include "belfry/optim/schedules/one_cycle.h"
#include "belfry/optim/schedules/polynomial.h"
#include "belfry/optim/schedules/wsd.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

const Clock kUpdatesOnly;                                 // no rows known
const Clock kFive{.rows_per_epoch = 3823, .batch = 955};  // five updates an epoch

double at(const LearningRate& r, std::int64_t k) { return r.at(k, kUpdatesOnly); }

}  // namespace

TEST_CASE("polynomial falls with a power of what is left", "[optim]") {
  const LearningRate r = polynomial(0.2, "100u", 2, 0.1);
  CHECK(at(r, 0) == Approx(0.2).epsilon(1e-12));
  CHECK(at(r, 50) == Approx(0.2 * (0.1 + 0.9 * 0.25)).epsilon(1e-12));
  CHECK(at(r, 90) == Approx(0.2 * (0.1 + 0.9 * 0.01)).epsilon(1e-12));
  CHECK(at(r, 100) == Approx(0.02).epsilon(1e-12));
  CHECK(at(r, 100000) == Approx(0.02).epsilon(1e-12));
  CHECK(at(polynomial(0.2, "100u", 1), 25) == Approx(at(linear(0.2, "100u"), 25)).epsilon(1e-12));
  CHECK(at(polynomial(1, "4u", 0.5), 3) == Approx(0.5).epsilon(1e-12));
  CHECK(polynomial(1, "2e").at(5, kFive) == Approx(0.25).epsilon(1e-12));
}

TEST_CASE("inverse_sqrt with a warm-up of its length is the transformer's schedule", "[optim]") {
  LearningRate r = inverse_sqrt(0.5, "4000u");
  CHECK(at(r, 0) == 0.5);
  CHECK(at(r, 4000) == 0.5);
  CHECK(at(r, 16000) == Approx(0.25).epsilon(1e-12));
  CHECK(at(r, 400000) == Approx(0.05).epsilon(1e-12));
  r.warm_up("4000u", 0);
  // d^-0.5 min(k^-0.5, k w^-1.5), scaled to 0.5 at its top.
  for (const std::int64_t k : {1, 500, 3999, 4000, 4001, 50000}) {
    const double x = static_cast<double>(k);
    const double want =
        0.5 * std::sqrt(4000.0) * std::min(1 / std::sqrt(x), x * std::pow(4000.0, -1.5));
    CHECK(at(r, k) == Approx(want).epsilon(1e-12));
  }
}

TEST_CASE("one_cycle rises and falls by half cosines", "[optim]") {
  const LearningRate r = one_cycle(0.1, "100u");
  CHECK(at(r, 0) == Approx(0.004).epsilon(1e-12));
  CHECK(at(r, 15) == Approx(0.052).epsilon(1e-12));  // half-way between 0.004 and 0.1
  CHECK(at(r, 30) == Approx(0.1).epsilon(1e-12));
  CHECK(at(r, 65) == Approx((0.1 + 4e-7) / 2).epsilon(1e-12));
  CHECK(at(r, 10) == Approx(0.004 + 0.096 * 0.25).epsilon(1e-12));  // cos(pi / 3) = 1 / 2
  CHECK(at(r, 100) == Approx(4e-7).epsilon(1e-12));
  CHECK(at(r, 5000) == Approx(4e-7).epsilon(1e-12));
  const LearningRate falls = one_cycle(1, "10u", {.rise = 0, .end = 0});
  CHECK(at(falls, 0) == 1);
  CHECK(at(falls, 5) == Approx(0.5).epsilon(1e-12));
  CHECK(at(falls, 10) == 0);
}

TEST_CASE("wsd keeps the rate and falls at the end", "[optim]") {
  LearningRate r = wsd(0.1, "80u", "20u", 0.1);
  CHECK(at(r, 0) == 0.1);
  CHECK(at(r, 80) == 0.1);
  CHECK(at(r, 90) == Approx(0.055).epsilon(1e-12));
  CHECK(at(r, 100) == Approx(0.01).epsilon(1e-12));
  CHECK(at(r, 1000) == Approx(0.01).epsilon(1e-12));
  CHECK(at(wsd(1, "80u", "16u", 0, "sqrt"), 84) == Approx(0.5).epsilon(1e-12));  // 1 - sqrt(1/4)
  r.warm_up("10u", 0);
  CHECK(at(r, 5) == Approx(0.05).epsilon(1e-12));
  CHECK(at(r, 10) == 0.1);
  CHECK(wsd(1, "2e", "1e").at(12, kFive) == Approx(0.6).epsilon(1e-12));
}

TEST_CASE("these schedules refuse what makes no sense", "[optim]") {
  const double nan = std::nan("");
  CHECK_THROWS_AS(polynomial(0.1, ""), ConfigError);
  CHECK_THROWS_AS(polynomial(0.1, "10u", 0), ConfigError);
  CHECK_THROWS_AS(polynomial(0.1, "10u", nan), ConfigError);
  CHECK_THROWS_AS(polynomial(0.1, "10u", 2, 1.5), ConfigError);
  CHECK_THROWS_AS(inverse_sqrt(0.1, "0u"), ConfigError);
  CHECK_THROWS_AS(one_cycle(0.1, "0e"), ConfigError);
  CHECK_THROWS_AS(one_cycle(0.1, "10u", {.rise = 1}), ConfigError);
  CHECK_THROWS_AS(one_cycle(0.1, "10u", {.start = -0.1}), ConfigError);
  CHECK_THROWS_AS(wsd(0.1, "10u", ""), ConfigError);
  CHECK_THROWS_AS(wsd(0.1, "", "10u"), ConfigError);
  CHECK_THROWS_AS(wsd(0.1, "10u", "10u", 0, "cubic"), ConfigError);
}

}  // namespace belfry
