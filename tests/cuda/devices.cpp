// SPDX-License-Identifier: MIT
// What a context finds out about its GPUs: which reach each other, what memory is free; lists of
// towers that mix.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/device/tower_list.h"
#include "belfry/optim/optimizer.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/simcuda/simcuda.h"
#include "belfry/tests/simcuda/state.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/towers/memory_plan.h"

using namespace belfry;
using namespace belfry::sim;
using belfry::test::batch_of;
using belfry::test::classify;
using Catch::Matchers::Contains;

namespace {

std::vector<int> gpus_of(const std::string& towers) { return parse_towers(towers).gpus; }

// Options for towers that are listed as a user writes them, and what is logged.
ContextOptions as_written(const Gpus& machine, const std::string& towers,
                          std::vector<std::string>& lines) {
  ContextOptions o = machine.options(gpus_of(towers));
  o.towers = towers;
  o.log = Log([&lines](LogLevel level, std::string_view text) {
    lines.push_back((level == LogLevel::warn ? "warning: " : "") + std::string(text));
  });
  return o;
}

bool any(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

struct Wide : Module {
  Linear head{*this, "head", 2048, 255};
};

// The hash of parameters after three updates.
std::string trained(Context& context, const std::string& transport) {
  GroupOptions options;
  options.variables = Variables::replicated;
  options.transport = transport;
  TowerGroupBase group(context, momentum({.lr = 0.05}), test::mlp(), options);
  const Batch batch = batch_of(context, 20);
  for (int i = 0; i < 3; ++i) group.step(batch, classify);
  return group.parameter_hash();
}

}  // namespace

TEST_CASE("towers mix: several on each of several GPUs, by copies, with the bits of a GPU each",
          "[cuda][engine]") {
  std::string apart;
  {
    Gpus machine(4, {.seed = 1});
    Context context(machine.options());
    apart = trained(context, "nccl");
  }
  for (const char* towers : {"cuda:0x2,1x2", "cuda:1,0x3", "cuda:0,1x2,0"}) {
    INFO(towers);
    std::vector<std::string> lines;
    Gpus machine(2, {.seed = 2});
    {
      Context context(as_written(machine, towers, lines));
      CHECK(context.towers() == 4);
      CHECK(trained(context, "auto") == apart);
    }
    CHECK(any(lines, "averaging: threads (several towers on cuda:0"));
    CHECK(machine.faults() == std::vector<std::string>{});
  }
}

TEST_CASE("GPUs of a context read each other's memory, or one line says which cannot", "[cuda]") {
  std::string with, without;
  std::vector<std::string> lines;
  {
    Gpus machine(3, {.seed = 1});
    {
      Context context(as_written(machine, "cuda:0,2x2", lines));
      for (const int a : {0, 1, 2})
        for (const int b : {0, 1, 2})
          CHECK(machine.machine().state().memory.peer(a, b) == (a + b == 2 && a != b));
      with = trained(context, "threads");
      const Context again(
          as_written(machine, "cuda:0,1,2", lines));  // some pairs are there already
      CHECK(machine.machine().state().memory.peer(1, 2));
    }
    CHECK_FALSE(any(lines, "warning"));
    CHECK(machine.faults() == std::vector<std::string>{});
  }
  {
    Gpus machine(3, {.seed = 2});
    machine.machine().without_peers();
    {
      Context context(as_written(machine, "cuda:0,2x2", lines));
      CHECK(lines.back() ==
            "warning: no peer access between cuda:0 and cuda:2: copies go through the host");
      without = trained(context, "threads");
      const std::size_t before = lines.size();
      const Context one(as_written(machine, "cuda:1x3", lines));  // nothing to reach
      CHECK(lines.size() == before);
      const Context all(as_written(machine, "cuda:0,1,2", lines));
      CHECK(lines.back() ==
            "warning: no peer access between cuda:0 and cuda:1, cuda:0 and cuda:2, cuda:1 and "
            "cuda:2: copies go through the host");
    }
    CHECK(machine.faults() == std::vector<std::string>{});
  }
  CHECK(with == without);
}

TEST_CASE("a plan that does not fit a GPU is refused with its name, what it needs and what is free",
          "[cuda-sim]") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto plan = [](int towers) {
    return plan_memory(test::Mlp(), momentum({.lr = 0.05}), towers, Variables::replicated);
  };
  std::vector<std::string> lines;
  Gpus machine(2, {.seed = 1});
  machine.machine().limit_memory(8 * kMiB);
  Context context(as_written(machine, "cuda:0,1x3", lines));
  MemoryPlan fits = plan(4);
  const std::vector<GpuShare> shares = gpu_shares(fits, context);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].gpu == DeviceId{Backend::cuda, 0});
  CHECK(shares[1].needed == fits.total() / 4 * 3);
  CHECK(shares[1].needed == 3 * shares[0].needed);
  CHECK(shares[1].memory.total == 8 * kMiB);
  CHECK(shares[1].memory.free == 8 * kMiB);
  require_memory(fits, context, "");
  // The first fills GPU 1 to the last byte.
  for (MemoryPlan::Line& line : fits.lines) line.bytes *= 8.0 * kMiB / shares[1].needed;
  fits.lines[0].bytes -= 1;
  require_memory(fits, context, "");
  fits.lines[0].bytes += 2;
  CHECK_THROWS_WITH(require_memory(fits, context, "lower model.hidden or towers"),
                    Contains("does not fit into the memory of cuda:1") &&
                        Contains("8.0 MiB for 3610 parameters on 3 of 4 towers") &&
                        Contains("hidden.weight [48, 64]") &&
                        Contains("8.0 MiB, what is free of 8.0 MiB") &&
                        Contains("lower model.hidden or towers"));
  CHECK_THROWS_AS(require_memory(fits, context, ""), ConfigError);
  const Tensor taken = Tensor::empty(Shape{kMiB}, DType::f32, context.device(0));  // 4 MiB
  CHECK(gpu_shares(fits, context)[0].memory.free == 4 * kMiB);
  // What a group then takes is what was planned, but for small tables.
  Context cpu({.towers = "cpu:2"});
  CHECK(gpu_shares(plan(2), cpu).empty());
  CHECK_FALSE(device_memory(cpu, 0).has_value());
}

// But for tables, and slices that end with whole blocks.
TEST_CASE("a group takes from its GPUs what was planned, whatever the optimizer", "[cuda-sim]") {
  for (const Run& run : gpu_runs(4)) {
    INFO(run.label);
    std::vector<std::string> lines;
    Gpus machine(2, {.seed = 1});
    Context context(as_written(machine, "cuda:0x2,1x2", lines));
    GroupOptions options;
    options.variables = Variables::replicated;
    TowerGroupBase group(
        context, run.optimizer(), [] { return std::make_unique<Wide>(); }, options);
    const double planned =
        plan_memory(Wide(), run.optimizer(), 4, Variables::replicated).total() / 4;
    for (int t = 0; t < 4; ++t)
      CHECK(static_cast<double>(context.device(t).arena().stats().live_bytes) ==
            Approx(planned).epsilon(0.05));
  }
}
