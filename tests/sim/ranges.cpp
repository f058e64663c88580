// SPDX-License-Identifier: MIT
// The ranges of device memory that operations declare are complete: on devices where all else is
// hidden from them they give the same bits. Tables in host memory are not hidden.
#include "belfry/allreduce/average_gradients.h"
#include "belfry/allreduce/leaf.kernel.h"
#include "belfry/allreduce/parts.kernel.h"
#include "belfry/allreduce/state.kernel.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/check_labels.kernel.h"
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

TEST_CASE("kernels of leaves and parts declare all that they read and write", "[ranges]") {
  // What no run of the others tells apart: weights of 0, a fault, a part that is set.
  DeclaredPlatform platform;
  const auto run = [](Device& d) {
    const auto tensor = [&](std::vector<double> values) {
      return Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}, DType::f32, d);
    };
    const auto merged = [&](double l, double r) {
      const Tensor left = tensor({1, 2}), right = tensor({10, 20}), weights = tensor({l, r});
      launch_elements(d.main(), 2,
                      MergeLeaves{left.data<float>(), right.data<float>(), weights.data<float>(),
                                  weights.data<float>() + 1});
      return left.to_vector();
    };
    std::vector<Values> out{merged(1, 0), merged(0, 1), merged(1, 1)};
    const Tensor loss = tensor({3, 2}), fault = tensor({1, 0, 0, 0, 0, 0}),
                 part = tensor({0, 0, 0, 0});
    static_assert(sizeof(LabelFault) == 24 && sizeof(DevicePart) == 16);
    auto* const to = static_cast<DevicePart*>(part.raw());
    launch_elements(d.main(), 1,
                    AddUnit{loss.data<float>(), loss.data<float>() + 1,
                            static_cast<const LabelFault*>(fault.raw()), to, true});
    out.push_back(part.to_vector());
    launch_elements(d.main(), 1, SetPart{to, {.weight = 5, .units = 7}});
    out.push_back(part.to_vector());
    return out;
  };
  const std::vector<Values> want{{1, 2}, {10, 20}, {11, 22}, {2, 6, 1, 1}, {5, 0, 7, 0}};
  CHECK(run(*make_cpu_device(0, 1, Executor::in_place)) == want);
  CHECK(run(*platform.device(0, 1)) == want);
  CHECK(platform.memory().reports() == kNothing);
}

TEST_CASE("kernels of states declare all that they read and write", "[ranges]") {
  DeclaredPlatform platform;
  const auto run = [](Device& d) {
    const auto bytes = [&](const auto& values) {
      const Tensor t = Tensor::empty(
          Shape{static_cast<std::int64_t>(values.size() * sizeof(values[0]))}, DType::u8, d);
      d.main().copy(t.raw(), values.data(), t.bytes());
      return t;
    };
    const std::vector<StateKind> kinds{StateKind::mean, StateKind::sum, StateKind::equal,
                                       StateKind::pooled};
    std::vector<StateRule> rules;
    for (const StateKind k : kinds) rules.push_back({k, 0.5f});
    const std::size_t n = rules.size();
    const Tensor rule = bytes(rules), unit = bytes(std::vector<StateTerm>(n, {4, 2, 3})),
                 weights = bytes(std::vector<float>{0, 1});
    const auto* const of = static_cast<const StateRule*>(rule.raw());
    std::vector<Values> out;
    const auto note = [&](const Tensor& terms) {
      std::vector<StateTerm> host(n);
      d.main().fetch(host.data(), terms.raw(), terms.bytes());
      for (const StateTerm& t : host) out.push_back({t.value, t.second, t.weight});
    };
    for (const int weight : {0, 1})
      for (const bool first : {true, false}) {
        const Tensor sum = bytes(std::vector<StateTerm>(n, {1, 1, 1}));
        launch_elements(d.main(), n,
                        AddUnitStates{of, static_cast<const StateTerm*>(unit.raw()),
                                      static_cast<const float*>(weights.raw()) + weight,
                                      static_cast<StateTerm*>(sum.raw()), first});
        note(sum);
        launch_elements(d.main(), n,
                        MergeStates{of, static_cast<StateTerm*>(sum.raw()),
                                    static_cast<const StateTerm*>(unit.raw())});
        note(sum);
      }
    const Tensor terms = bytes(std::vector<StateTerm>(2 * n, {4, 2.5f, 3})),
                 places = bytes(std::vector<int>{1, 0}),
                 merges = bytes(std::vector<unsigned char>{0, 1});
    for (const float ok : {0.f, 1.f}) {
      const Tensor values = Tensor::from(Values(2 * n, 10), Shape{8}, DType::f32, d),
                   verdict = bytes(std::vector<Verdict>{{.ok = ok}});
      launch_elements(d.main(), n,
                      UpdateStates{of, static_cast<const StateTerm*>(terms.raw()),
                                   static_cast<const int*>(places.raw()),
                                   static_cast<const unsigned char*>(merges.raw()), 2, 2, n,
                                   static_cast<const Verdict*>(verdict.raw()), values.data<float>(),
                                   values.data<float>() + n});
      out.push_back(values.to_vector());
    }
    return out;
  };
  const std::vector<Values> want = run(*make_cpu_device(0, 1, Executor::in_place));
  // 1 of weight 1 and 4 of weight 3, with squared differences of 1 and 2.
  REQUIRE(want.at(24) == Values{3.25, 9.75, 4});
  REQUIRE(want.at(32) == Values(8, 10));
  REQUIRE(want.at(33) == Values{4, 18, 4, 7, 10, 10, 10, 5.5});
  CHECK(run(*platform.device(0, 1)) == want);
  CHECK(platform.memory().reports() == kNothing);
}

TEST_CASE("kernels of labels that GPUs run declare all that they read and write", "[ranges]") {
  DeclaredPlatform platform;
  const auto run = [](Device& d) {
    std::vector<Values> out;
    const Tensor labels = Tensor::from({0, 9, 1, 7}, Shape{4}, DType::i32, d);
    for (const float before : {0.f, 1.f}) {
      const LabelFault start{before, 5, 3, 4};
      const Tensor fault = Tensor::empty(Shape{sizeof start}, DType::u8, d);
      d.main().copy(fault.raw(), &start, sizeof start);
      launch_rows(d.main(), 1,
                  CheckLabels{labels.data<std::int32_t>(),
                              4,
                              2,
                              3,
                              {1, true},
                              static_cast<LabelFault*>(fault.raw())});
      LabelFault found;
      d.main().fetch(&found, fault.raw(), sizeof found);
      out.push_back({static_cast<double>(found.found), static_cast<double>(found.label),
                     static_cast<double>(found.row), static_cast<double>(found.classes)});
    }
    return out;
  };
  const std::vector<Values> want{{1, 9, 0, 3}, {1, 5, 3, 4}};
  CHECK(run(*make_cpu_device(0, 1, Executor::in_place)) == want);
  CHECK(run(*platform.device(0, 1)) == want);
  CHECK(platform.memory().reports() == kNothing);
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
