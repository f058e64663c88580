// SPDX-License-Identifier: MIT
// Artificial delays show in the report where they belong, at their size.
#include <algorithm>
#include <cmath>

#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;

namespace {

constexpr double kDelay = 0.02;
constexpr int kUpdates = 40;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Run {
  Run(double loader_delay, double exchange_delay, Variables variables)
      : context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1}),
        loader(context, blobs(64),
               {.batch = 64, .epochs = kUpdates, .prefetch = 0, .delay_seconds = loader_delay}),
        towers(context, momentum({.lr = 0.01}), mlp(),
               {.variables = variables, .exchange_delay = exchange_delay}) {}
  Report update() {
    Batch batch;
    REQUIRE(loader.next(batch));
    return towers.step(batch, classify);
  }
  Context context;
  Loader loader;
  TowerGroupBase towers;
};

// Medians of how much more the delayed run shows than one without, update by update in turn: a
// busy machine meets both.
struct Moved {
  double data_wait, exposed, other;
};

Moved moved(double loader_delay, double exchange_delay, Variables variables) {
  Run plain(0, 0, variables), delayed(loader_delay, exchange_delay, variables);
  std::vector<double> wait, exposed, other;
  for (int u = 0; u < kUpdates; ++u) {
    const Report a = plain.update(), b = delayed.update();
    wait.push_back(b.data_wait - a.data_wait);
    exposed.push_back(b.exposed - a.exposed);
    other.push_back(b.forward_backward + b.update_seconds - a.forward_backward - a.update_seconds);
  }
  return {median(wait), median(exposed), median(other)};
}

// The first of up to 5 measurements that comes out as computed, else the last: other programs can
// only add to a time, and a delay that does not show up never comes out.
Moved measured(double loader_delay, double exchange_delay, Variables variables) {
  Moved m{};
  const auto near = [](double a, double b) { return std::abs(a - b) <= 0.1 * kDelay; };
  for (int i = 0; i < 5; ++i) {
    m = moved(loader_delay, exchange_delay, variables);
    if (near(m.data_wait, loader_delay) && near(m.exposed, exchange_delay) && near(m.other, 0))
      break;
  }
  return m;
}

}  // namespace

TEST_CASE("20 ms in the loader move the data wait by 20 ms an update", "[slow]") {
  for (const Variables v : {Variables::shared, Variables::replicated}) {
    const Moved m = measured(kDelay, 0, v);
    CHECK(m.data_wait == Approx(kDelay).epsilon(0.1));
    CHECK(m.exposed == Approx(0).margin(0.1 * kDelay));
    CHECK(m.other == Approx(0).margin(0.1 * kDelay));
  }
}

TEST_CASE("20 ms in the exchange move the exposed communication by 20 ms an update", "[slow]") {
  for (const Variables v : {Variables::shared, Variables::replicated}) {
    const Moved m = measured(0, kDelay, v);
    CHECK(m.exposed == Approx(kDelay).epsilon(0.1));
    CHECK(m.data_wait == Approx(0).margin(0.1 * kDelay));
    CHECK(m.other == Approx(0).margin(0.1 * kDelay));
  }
}
