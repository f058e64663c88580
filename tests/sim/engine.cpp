// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/engine.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "belfry/tests/catch.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

// Orders of execution tried: 50, or $BELFRY_SIM_SEEDS.
std::uint64_t seeds() {
  const char* set = std::getenv("BELFRY_SIM_SEEDS");
  return set == nullptr ? 50 : std::strtoull(set, nullptr, 10);
}

}  // namespace

TEST_CASE("under any order of execution a run gives the bits of the plain one") {
  std::uint64_t runs = 0, operations = 0;
  for (const int towers : {4, 8})
    for (const Run& run : all_runs(towers)) {
      const Outcome want = run_plain(run);
      REQUIRE(want.error.empty());
      for (std::uint64_t seed = 1; seed <= orders(run, seeds()); ++seed, ++runs) {
        const Outcome got = run_simulated(run, {.seed = seed});
        INFO(run.label << ", " << towers << " towers, seed " << seed);
        CHECK(got.error.empty());
        CHECK(got.reports == std::vector<std::string>{});
        CHECK(got == want);
        operations += got.operations;
      }
    }
  WARN(runs << " runs under up to " << seeds() << " seeds, " << operations << " operations");
}

TEST_CASE("queues with a thread each give the bits of the plain run") {
  for (const int towers : {2, 8})
    for (const Run& run : all_runs(towers)) {
      if (run.way == Way::collectives) continue;  // of the simulator only
      const Outcome want = run_plain(run);
      REQUIRE(want.error.empty());
      INFO(run.label << ", " << towers << " towers");
      CHECK(run_plain(run, Executor::threaded) == want);
      CHECK(run_plain(run, Executor::lazy) == want);
    }
}

TEST_CASE("a forward pass waits for the parameters of each bucket when it reads them") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Run run = all_runs(4)[0];
    for (const Run& r : all_runs(4))
      if (r.label == "clip, l2, ema, evaluation, collectives") run = r;
    REQUIRE(run.way == Way::collectives);
    run.updates = 2;
    run.evaluate = false;
    const Outcome out = run_simulated(run, {.seed = seed, .trace = true});
    REQUIRE(out.error.empty());
    std::vector<double> products, waits;
    for (const Traced& t : out.trace) {
      if (t.what == "gemm_f32 on cpu:0 main") products.push_back(t.begin);
      if (t.what == "wait on cpu:0 main") waits.push_back(t.begin);
    }
    std::sort(products.begin(), products.end());
    constexpr std::size_t kEvaluated = 2 * 3;  // with and without averaged parameters, 3 layers
    REQUIRE(products.size() > kEvaluated + 2 * 3);
    // The first layer, of the last bucket, does not wait for the bucket of the others.
    const std::size_t first = (products.size() - kEvaluated) / 2;
    CHECK(std::any_of(waits.begin(), waits.end(),
                      [&](double w) { return products[first] <= w && w <= products[first + 1]; }));
  }
}

TEST_CASE("the exchange of the first bucket runs under the backward pass, by virtual time") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Run run = all_runs(4)[0];
    for (const Run& r : all_runs(4))
      if (r.label == "guard, collectives") run = r;
    REQUIRE(run.way == Way::collectives);
    run.updates = 1;
    const Outcome out = run_simulated(run, {.seed = seed, .trace = true});
    REQUIRE(out.error.empty());
    // The weights go ahead of the first bucket; the second bucket's record ends the backward pass.
    double exchange = -1, backward_end = -1;
    int records = 0;
    for (const Traced& t : out.trace) {
      if (t.what.find("all_gather 1 bucket -1 update 1 of member 0") == 0) exchange = t.begin;
      if (t.what == "record on cpu:0 main" && ++records == 2) backward_end = t.end;
    }
    REQUIRE(exchange > 0);
    CHECK(exchange < backward_end);
  }
}
