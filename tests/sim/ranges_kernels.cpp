// SPDX-License-Identifier: MIT
// Ranges of kernels that the other tests of ranges do not tell apart, or that only GPUs run:
// launched one by one where all else is hidden from them, they give the same bits.
#include "belfry/allreduce/leaf.kernel.h"
#include "belfry/allreduce/parts.kernel.h"
#include "belfry/allreduce/state.kernel.h"
#include "belfry/autodiff/ops/loss/check_labels.kernel.h"
#include "belfry/autodiff/ops/random/dropout.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_backward.kernel.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/sim/declared.h"

namespace belfry::sim {
namespace {

using contract::Values;

const std::vector<std::string> kNothing;

}  // namespace

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

TEST_CASE("kernels of dropout in a recorded pass declare all that they read and write",
          "[ranges]") {
  DeclaredPlatform platform;
  const auto run = [](Device& d) {
    const Tensor x = Tensor::from(Values(24, 1), Shape{4, 6}, DType::f32, d),
                 y = Tensor::from(Values(24, 0), Shape{4, 6}, DType::f32, d);
    const PassNumbers here{.update = 3, .first_row = 40};
    const Tensor numbers = Tensor::empty(Shape{sizeof here}, DType::u8, d);
    d.main().copy(numbers.raw(), &here, sizeof here);
    launch_rows(d.main(), 4,
                DropoutRow<float>{
                    {Philox(7), 1, 0, 0, static_cast<const PassNumbers*>(numbers.raw()), 0.5f},
                    2.f,
                    x.data<float>(),
                    y.data<float>(),
                    6});
    return y.to_vector();
  };
  const Values want = run(*make_cpu_device(0, 1, Executor::in_place));
  CHECK(run(*platform.device(0, 1)) == want);
  CHECK(platform.memory().reports() == kNothing);
}

TEST_CASE("kernels of attention that GPUs run declare all that they read and write", "[ranges]") {
  DeclaredPlatform platform;
  constexpr std::size_t kBatch = 2, kPositions = 3, kHeads = 2, kWidth = 4,
                        kStride = kHeads * kWidth, kAll = kBatch * kPositions * kStride;
  constexpr std::size_t kPairs = kBatch * kHeads;
  const auto run = [](Device& d) {
    const auto tensor = [&d](std::size_t count, std::uint64_t seed) {
      const auto n = static_cast<std::int64_t>(count);
      return Tensor::from(sample_values(n, 1.0, seed), Shape{n}, DType::f32, d);
    };
    const Tensor q = tensor(kAll, 1), k = tensor(kAll, 2), v = tensor(kAll, 3), g = tensor(kAll, 4);
    const Tensor out = tensor(kAll, 5), logs = tensor(kPairs * kPositions, 6);
    const Tensor dq = tensor(kAll, 7), dk = tensor(kAll, 8), dv = tensor(kAll, 9);
    const PassNumbers here{.update = 3, .first_row = 40};
    const Tensor numbers = Tensor::empty(Shape{sizeof here}, DType::u8, d);
    d.main().copy(numbers.raw(), &here, sizeof here);
    const AttentionInputs<float> in{
        kBatch,
        kPositions,
        kPositions,
        kHeads,
        kWidth,
        true,
        0.5f,
        q.data<float>(),
        k.data<float>(),
        v.data<float>(),
        kStride,
        kStride,
        kStride,
        {Philox(7), 1, 0, 0, static_cast<const PassNumbers*>(numbers.raw()), 0.5f},
        2.f};
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      const AttentionPart<float> at{in, first, first == 0 ? 1 : kPositions - 1};
      const std::size_t rows = kPairs * at.count;
      const Tensor part = tensor(rows * kPositions, 10), dpart = tensor(rows * kPositions, 11);
      launch_rows(
          d.main(), rows,
          AttentionQuery<float>{at, part.data<float>(), out.data<float>(), logs.data<float>()});
      launch_rows(
          d.main(), rows,
          AttentionQueryBackward<float>{at, g.data<float>(), out.data<float>(), logs.data<float>(),
                                        part.data<float>(), dpart.data<float>(), dq.data<float>()});
      launch_rows(
          d.main(), kPairs * kPositions,
          AttentionKeyBackward<float>{at, g.data<float>(), part.data<float>(), dpart.data<float>(),
                                      dk.data<float>(), dv.data<float>()});
    }
    std::vector<Values> all;
    for (const Tensor& t : {out, logs, dq, dk, dv}) all.push_back(t.to_vector());
    return all;
  };
  const std::vector<Values> want = run(*make_cpu_device(0, 1, Executor::in_place));
  CHECK(run(*platform.device(0, 1)) == want);
  CHECK(platform.memory().reports() == kNothing);
}

}  // namespace belfry::sim
