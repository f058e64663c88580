// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/optim/schedule.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

const Clock kUpdatesOnly;                                   // no rows known
const Clock kDigits{.rows_per_epoch = 3823, .batch = 955};  // four full batches and a tail of 3

}  // namespace

TEST_CASE("B23: rates at the scenario's updates", "[optim][scenario]") {
  const LearningRate a = linear(0.1, "100u");
  CHECK(a.at(0, kUpdatesOnly) == 0.1);
  CHECK(a.at(25, kUpdatesOnly) == Approx(0.075).epsilon(1e-12));
  CHECK(a.at(99, kUpdatesOnly) == Approx(0.001).epsilon(1e-12));
  CHECK(a.at(100, kUpdatesOnly) == 0);
  CHECK(a.at(1000000, kUpdatesOnly) == 0);
  const LearningRate b = step(0.1, "20u", 0.1);
  CHECK(b.at(0, kUpdatesOnly) == 0.1);
  CHECK(b.at(19, kUpdatesOnly) == 0.1);
  CHECK(b.at(20, kUpdatesOnly) == Approx(0.01).epsilon(1e-12));
  CHECK(b.at(39, kUpdatesOnly) == Approx(0.01).epsilon(1e-12));
  CHECK(b.at(40, kUpdatesOnly) == Approx(0.001).epsilon(1e-12));
  LearningRate c(0.1);
  c.warm_up("10u");
  CHECK(c.at(0, kUpdatesOnly) == Approx(0.01).epsilon(1e-12));  // never 0
  CHECK(c.at(5, kUpdatesOnly) == Approx(0.055).epsilon(1e-12));
  CHECK(c.at(9, kUpdatesOnly) == Approx(0.091).epsilon(1e-12));
  CHECK(c.at(10, kUpdatesOnly) == 0.1);
}

TEST_CASE("cosine falls to its floor and stays", "[optim]") {
  const LearningRate r = cosine(0.2, "100u", 0.1);
  CHECK(r.at(0, kUpdatesOnly) == 0.2);
  CHECK(r.at(50, kUpdatesOnly) == Approx(0.11).epsilon(1e-12));
  CHECK(r.at(25, kUpdatesOnly) == Approx(0.2 * (0.1 + 0.45 * (1 + std::sqrt(0.5)))).epsilon(1e-12));
  CHECK(r.at(100, kUpdatesOnly) == Approx(0.02).epsilon(1e-12));
  CHECK(r.at(101, kUpdatesOnly) == Approx(0.02).epsilon(1e-12));
}

TEST_CASE("epochs and rows become updates through the clock", "[optim]") {
  // 3,823 rows in batches of 955 are five updates an epoch.
  const LearningRate epochs = step(1.0, "2e", 0.5);
  CHECK(epochs.at(9, kDigits) == 1.0);
  CHECK(epochs.at(10, kDigits) == 0.5);
  const LearningRate rows = step(1.0, "9550rows", 0.5);
  CHECK(rows.at(9, kDigits) == 1.0);
  CHECK(rows.at(10, kDigits) == 0.5);
  LearningRate warm = constant(1.0);
  warm.warm_up("1e", 0.0);
  CHECK(warm.at(0, kDigits) == 0.0);
  CHECK(warm.at(4, kDigits) == Approx(0.8));
  CHECK(warm.at(5, kDigits) == 1.0);
  CHECK_THROWS_AS(epochs.at(0, kUpdatesOnly), ConfigError);
}

TEST_CASE("warm-up is exact at both ends and multiplies the schedule", "[optim]") {
  LearningRate goyal = linear(0.8, "100u");  // 0.1 to 8 x 0.1 over five updates
  goyal.warm_up("5u", 0.125);
  CHECK(goyal.at(0, kUpdatesOnly) == Approx(0.1).epsilon(1e-12));
  CHECK(goyal.at(4, kUpdatesOnly) == Approx(0.8 * 0.96 * 0.825).epsilon(1e-12));
  CHECK(goyal.at(5, kUpdatesOnly) == Approx(0.8 * 0.95).epsilon(1e-12));
}

TEST_CASE("schedules refuse what makes no sense", "[optim]") {
  const double nan = std::nan("");
  CHECK_THROWS_AS(linear(0.1, "0u"), ConfigError);
  CHECK_THROWS_AS(linear(0.1, ""), ConfigError);
  CHECK_THROWS_AS(linear(0.1, "100u", nan), ConfigError);
  CHECK_THROWS_AS(linear(0.1, "100u", -0.1), ConfigError);
  CHECK_THROWS_AS(cosine(0.1, "ten"), ConfigError);
  CHECK_THROWS_AS(cosine(0.1, "10u", 1.5), ConfigError);
  CHECK_THROWS_AS(step(0.1, "10u", 0.0), ConfigError);
  CHECK_THROWS_AS(step(0.1, "10u", nan), ConfigError);
  LearningRate r(0.1);
  CHECK_THROWS_AS(r.warm_up("5u", nan), ConfigError);
  CHECK_THROWS_AS(r.warm_up("-5u"), ConfigError);
}

}  // namespace belfry
