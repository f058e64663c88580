// SPDX-License-Identifier: MIT
// Memory of GPUs that runs out while a group trains.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/optim/optimizer.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/simcuda/simcuda.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::sim;
using belfry::test::batch_of;
using belfry::test::classify;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kSmall = 8, kLarge = 48;

// Two updates with small batches, then one with `rows` for which cudaMalloc says no at its n-th
// call from there (0: never), then a small one and one with
// `rows` again.
struct Starved {
  std::uint64_t mallocs = 0;       // of the third update
  std::string error, later;        // of the third update and of those after it
  std::string before, after, end;  // hashes of parameters around the third, and at the end
  std::vector<std::string> reports;
};

Starved starve(const std::vector<int>& towers, const std::string& transport, bool capture,
               std::int64_t rows, std::uint64_t nth = 0, std::uint64_t seed = 1) {
  Starved out;
  const int gpus = 1 + *std::max_element(towers.begin(), towers.end());
  Gpus machine(gpus, {.seed = seed});
  {
    Context context(machine.options(towers));
    GroupOptions options;
    options.variables = Variables::replicated;
    options.transport = transport;
    options.capture = capture;
    options.timeout_seconds = 2;
    TowerGroupBase group(context, momentum({.lr = 0.05}), test::mlp(), options);
    const Batch small = batch_of(context, kSmall), large = batch_of(context, rows);
    for (int i = 0; i < 2; ++i) group.step(small, classify);
    out.before = group.parameter_hash();
    const std::uint64_t mallocs = machine.machine().counts().mallocs;
    machine.machine().fail_malloc(nth == 0 ? 0 : mallocs + nth);
    try {
      group.step(large, classify);
    } catch (const Error& e) {
      out.error = std::string(name_of(e.kind())) + ": " + e.what();
    }
    out.mallocs = machine.machine().counts().mallocs - mallocs;
    try {
      out.after = group.parameter_hash();
      group.step(small, classify);
      out.end = group.parameter_hash();
      for (int i = 0; i < 3; ++i) group.step(large, classify);
    } catch (const Error& e) {
      out.later = std::string(name_of(e.kind())) + ": " + e.what();
    }
  }
  out.reports = machine.faults();
  return out;
}

}  // namespace

TEST_CASE("a GPU without memory for an update: one error that says where, and the group goes on",
          "[cuda-sim]") {
  int refused = 0;
  const std::vector<std::pair<std::vector<int>, std::string>> groups{
      {{0}, "auto"},    {{0, 1}, "nccl"},       {{0, 1}, "threads"},
      {{0, 0}, "auto"}, {{0, 1, 2, 3}, "nccl"}, {{0, 0, 1, 1}, "auto"}};
  for (const auto& [towers, transport] : groups)
    for (const bool capture : {false, true}) {
      const Starved whole = starve(towers, transport, capture, kLarge);
      const Starved small = starve(towers, transport, capture, kSmall);
      REQUIRE(whole.error == "");
      REQUIRE(whole.mallocs > 3);
      for (std::uint64_t nth = 1; nth <= whole.mallocs; ++nth, ++refused) {
        INFO(towers.size() << " towers, " << transport << (capture ? ", recorded" : "")
                           << ", cudaMalloc " << nth << " of " << whole.mallocs);
        const Starved got = starve(towers, transport, capture, kLarge, nth, 1 + nth % 5);
        CHECK_THAT(got.error, Contains("DeviceError: out of memory on cuda:") &&
                                  Contains("cudaMalloc") && Contains("bytes wanted") &&
                                  Contains("tower ") && Contains("update 3"));
        CHECK(got.later == "");
        CHECK(got.reports == std::vector<std::string>{});
        CHECK(got.after == got.before);
        CHECK(got.end == small.after);
      }
    }
  CHECK(refused > 100);
  WARN(refused << " refused");
}

TEST_CASE("a GPU that breaks in an update ends the group: one error, then one that says so",
          "[cuda-sim]") {
  for (const int n : {1, 2, 4})
    for (const char* transport : {"nccl", "threads"}) {
      INFO(n << " GPUs, " << transport);
      Gpus machine(n, {});
      Context context(machine.options());
      GroupOptions options;
      options.variables = Variables::replicated;
      options.transport = transport;
      options.timeout_seconds = 2;
      TowerGroupBase group(context, momentum({.lr = 0.05}), test::mlp(), options);
      const Batch batch = batch_of(context, kSmall);
      for (int i = 0; i < 2; ++i) group.step(batch, classify);
      machine.machine().break_device(cudaErrorIllegalAddress);
      std::string error;
      try {
        group.step(batch, classify);
      } catch (const DeviceError& e) {
        error = e.what();
      }
      CHECK_THAT(error, Contains(" failed on cuda:") && Contains("cudaErrorIllegalAddress") &&
                            Contains("tower ") && Contains("update 3"));
      CHECK_THROWS_WITH(
          group.step(batch, classify),
          Contains("the tower group has failed earlier") && Contains("make a new one"));
      CHECK(machine.machine().reports() == std::vector<std::string>{});
    }
}
