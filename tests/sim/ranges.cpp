// SPDX-License-Identifier: MIT
// The ranges of device memory that operations declare are complete: on devices where all else is
// hidden from them they give the same bits. Tables in host memory are not hidden.
#include "belfry/allreduce/average_gradients.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/data/memory.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/sim/declared.h"
#include "belfry/tests/sim/engine.h"

namespace belfry::sim {
namespace {

using contract::Values;

const std::vector<std::string> kNothing;

void require_same(const Run& run) {
  INFO(run.label << ", " << run.towers << " towers");
  const Outcome want = run_plain(run), got = run_declared(run);
  REQUIRE(want.error.empty());
  REQUIRE(got.error.empty());
  REQUIRE(got.reports == kNothing);
  REQUIRE(got.losses == want.losses);
  REQUIRE(got.hash == want.hash);
  REQUIRE(got.operations > 100);
}

Run run_of(const std::string& label, Way way, std::function<Optimizer()> optimizer) {
  Run run;
  run.label = label;
  run.towers = 3;
  run.way = way;
  run.optimizer = std::move(optimizer);
  return run;
}

// Mean and squares of three towers' lists on devices that `make` gives.
std::vector<Values> averaged(DType type, const std::function<std::unique_ptr<Device>(int)>& make) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<GradientList> towers;
  for (int t = 0; t < 3; ++t) {
    devices.push_back(make(t));
    const auto seed = static_cast<std::uint64_t>(t + 1);
    towers.push_back(
        {{Tensor::from(sample_values(35, 1.0, seed), {5, 7}, type, *devices.back()), "w"},
         {Tensor::from(sample_values(3, 1.0, seed), {3}, type, *devices.back()), "b"}});
  }
  towers[1][1].gradient = Tensor();
  const AverageOptions options{
      .include_square = true, .weights = {1, 2, 0.5}, .none = MissingOnSome::zero};
  std::vector<Values> out;
  for (const AveragedGradients& result : {average_gradients({towers[0]}, {.include_square = true}),
                                          average_gradients(towers, options)})
    for (const GradientList& list : {result.mean, result.square})
      for (const GradientPair& p : list) out.push_back(p.gradient.to_vector());
  return out;
}

struct Small : Module {
  Linear layer{*this, "layer", 6, 3};
};

// Gradients of two micro-batches a tower, which are divided by their weight.
std::vector<Values> accumulated(ContextOptions options) {
  options.towers = "cpu:2";
  options.threads_per_tower = 1;
  Context context(options);
  TowerGroup<Small> group(context, sgd({.lr = 0.1}).accumulating(2),
                          {.variables = Variables::replicated});
  std::vector<float> x;
  for (int i = 0; i < 60; ++i) x.push_back(static_cast<float>(i * 7 % 11) / 11);
  Loader loader(context, memory_dataset(x, Shape{6}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, 3),
                {.batch = 10, .epochs = 1, .shuffle = false, .prefetch = 0});
  Batch batch;
  loader.next(batch);
  const TowerGradients g = group.gradients(batch, [](Small& net, const Batch& b, Step&) {
    return cross_entropy(net.layer(b["image"]), b["label"]);
  });
  std::vector<Values> out;
  for (const GradientList& list : g.towers)
    for (const GradientPair& p : list) out.push_back(p.gradient.to_vector());
  return out;
}

}  // namespace

TEST_CASE("every op declares all that it reads and writes", "[ranges]") {
  const Registry registry = builtin();
  DeclaredPlatform platform;
  const auto checked = platform.device(0, 1);
  const auto plain = make_cpu_device(0, 1, Executor::in_place);
  const auto check = [&](const std::string& name, const OpCase& c) {
    for (const DType type : {DType::f32, DType::f64}) {
      INFO(name << ", case " << c.label << ", " << name_of(type));
      const contract::Gradients want = contract::differentiate(c, type, *plain),
                                got = contract::differentiate(c, type, *checked);
      REQUIRE(got.output == want.output);
      REQUIRE(got.inputs == want.inputs);
      REQUIRE(platform.memory().reports() == kNothing);
    }
  };
  for (const auto& [name, entry] : registry.table<OpEntry>()) DYNAMIC_SECTION(name) {
      for (const OpCase& c : entry.cases()) check(name, c);
    }
  // A value used several times: its gradient is a sum of terms, the first of them shared.
  SECTION("terms of a gradient") {
    OpCase terms;
    terms.inputs = {sample({5, 7})};
    terms.run = [](std::span<const Tensor> t) {
      return add(add(t[0], t[0]), add(mul(t[0], t[0]), t[0]));
    };
    check("terms of a gradient", terms);
  }
}

TEST_CASE("averaging of lists declares all that it reads and writes", "[ranges]") {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    DeclaredPlatform platform;
    INFO(name_of(type));
    const auto want =
        averaged(type, [](int i) { return make_cpu_device(i, 1, Executor::in_place); });
    REQUIRE(averaged(type, [&](int i) { return platform.device(i, 1); }) == want);
    REQUIRE(platform.memory().reports() == kNothing);
  }
}

TEST_CASE("an update declares all that it reads and writes", "[ranges]") {
  for (const int towers : {1, 3})
    for (const Run& run : all_runs(towers))
      if (run.way != Way::collectives) require_same(run);
  const auto platform = std::make_shared<DeclaredPlatform>();
  CHECK(accumulated({.platform = platform}) == accumulated({}));
  CHECK(platform->memory().reports() == kNothing);
}

TEST_CASE("every optimizer rule declares all that it reads and writes", "[ranges]") {
  for (const Way way : {Way::shared, Way::replicated}) {
    require_same(run_of("sgd", way, [] { return sgd({.lr = 0.05}); }));
    require_same(run_of("nesterov", way, [] { return nesterov({.lr = 0.05}); }));
    require_same(run_of("adam", way, [] { return adam({}); }));
    require_same(run_of("adam of squares", way, [] { return adam({.second_moment = "towers"}); }));
    require_same(run_of("adamw", way, [] { return adamw({}); }));
    require_same(run_of("rmsprop", way, [] { return rmsprop({}); }));
    require_same(run_of("rmsprop with momentum", way, [] { return rmsprop({.momentum = 0.9}); }));
  }
}

}  // namespace belfry::sim
