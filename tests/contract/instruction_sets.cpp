// SPDX-License-Identifier: MIT
// Kernels of every instruction set that this processor has: each set is complete, and ops and rules
// give the same bits on all that fuse multiply_add, and what contains none on the baseline, too.
#include <map>
#include <set>

#include "belfry/allreduce/fold.kernel.h"
#include "belfry/core/registry.h"
#include "belfry/device/host_kernels.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/contract/seen_device.h"
#include "belfry/tests/optim/rule_variants.h"
#include "kernel_lists.h"  // generated: kernel_lists(table)

namespace belfry {
namespace {

using namespace contract;
using Bodies = std::map<std::string, HostBody, std::less<>>;

// The listed kernels as this file is compiled.
struct Portable {
  Bodies bodies;
  template <class F>
  void elements() {
    bodies[F::name] = host_elements<F>;
  }
  template <class F>
  void rows() {
    bodies[F::name] = host_rows<F>;
  }
};

// What is not listed (library calls, f64) runs as it comes.
OnLaunch at_level(InstructionSet set) {
  Portable portable;
  kernel_lists(portable);
  return [set, portable](KernelCall& call) {
    const auto listed = portable.bodies.find(call.name);
    if (listed == portable.bodies.end()) return;
    call.host = set == InstructionSet::baseline ? listed->second : host_body(set, call.name);
  };
}

struct Result {
  std::string name;
  std::vector<Values> values;
};

std::vector<float> floats(std::size_t n, std::uint64_t seed) {
  const Values v = sample_values(static_cast<std::int64_t>(n), 1.0, seed);
  return {v.begin(), v.end()};
}

// Parameters and states after two updates by each variant of a rule.
std::vector<Values> updated(const RuleEntry& entry, Stream& stream) {
  constexpr std::size_t n = 203;
  const SegmentRef segment{0, n, 0};
  std::vector<Values> out;
  for (const auto& rule : test::rule_variants(entry)) {
    UpdateScalars scalars;
    scalars.lr = 0.1f, scalars.decay = 0.01f, scalars.clip = 0.7f;
    std::vector<float> param = floats(n, 1), grad = floats(n, 2), square(n);
    for (std::size_t i = 0; i < n; ++i) square[i] = grad[i] * grad[i];
    std::vector<std::vector<float>> state(kMaxStates, std::vector<float>(n));
    UpdateArgs args{.rows = 1,
                    .segments = &segment,
                    .size = n,
                    .param = param.data(),
                    .grad = grad.data(),
                    .square = square.data(),
                    .scalars = &scalars,
                    .variables = 1};
    for (std::size_t k = 0; k < state.size(); ++k) args.state[k] = state[k].data();
    for (; scalars.step < 3; scalars.step += 1) rule->update(stream, args);
    out.emplace_back(param.begin(), param.end());
    for (const std::vector<float>& s : state) out.emplace_back(s.begin(), s.end());
  }
  return out;
}

// Mean and statistics of three towers' gradients.
std::vector<Values> folded(Stream& stream) {
  constexpr unsigned n = 1027;
  const std::vector<float> a = floats(n, 3), b = floats(n, 4), c = floats(n, 5);
  const float* const sources[] = {a.data(), b.data(), c.data()};
  const DevicePart parts[3] = {{.weight = 3}, {.weight = 2}, {.weight = 5}};
  const Totals totals{.weight = 10};
  const FoldPlan plan{.present = 1};
  const SegmentRef segment{0, n, 0};
  std::vector<float> mean(n);
  SegmentStats stats;
  FoldArgs args{};
  args.segments = &segment, args.count = n, args.plan = &plan, args.variables = 1;
  args.sources = args.host_sources = sources, args.parts = parts, args.totals = &totals;
  args.n = args.part_count = 3, args.param = a.data(), args.mean = mean.data();
  args.stats = &stats, args.config.statistics = args.config.squares = true;
  launch_rows(stream, 1, FoldSegments<3>{args});
  return {{mean.begin(), mean.end()}, {stats.raw, stats.units, stats.clipped}};
}

std::vector<Result> results_at(InstructionSet set) {
  const Registry registry = builtin();
  std::vector<Result> out;
  SeenDevice device(0, at_level(set));
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      const Gradients g = differentiate(c, DType::f32, device);
      out.push_back({name, g.inputs});
      out.back().values.push_back(g.output);
    }
  for (const auto& [name, entry] : registry.table<RuleEntry>())
    out.push_back({name, updated(entry, device.main())});
  out.push_back({"fold", folded(device.main())});
  return out;
}

}  // namespace

TEST_CASE("every listed kernel is there for every instruction set", "[isa]") {
  Portable portable;
  kernel_lists(portable);
  REQUIRE(portable.bodies.size() > 60);
  for (const InstructionSet set : instruction_sets())
    for (const auto& [name, body] : portable.bodies) {
      INFO(name << " for " << name_of(set));
      const HostBody found = host_body(set, name);
      CHECK((found != nullptr) == (set != InstructionSet::baseline));
      CHECK(found != body);
    }
}

TEST_CASE("instruction sets give the same bits", "[isa]") {
  // Ops whose f32 kernels fuse, themselves or in an activation: they round twice on the baseline.
  const std::set<std::string> fused = {"conv2d",    "cross_entropy", "gelu",    "silu", "softmax",
                                       "attention", "linear",        "sigmoid", "tanh"};
  const std::vector<InstructionSet> sets = instruction_sets();
  if (sets.size() < 2) {
    WARN("skipped: this processor or build has the baseline alone");
    return;
  }
  const std::vector<Result> first = results_at(sets[1]);
  std::set<std::string> differ;
  for (const InstructionSet set : sets) {
    const std::vector<Result> other = results_at(set);
    REQUIRE(other.size() == first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Result &a = first[i], &b = other[i];
      INFO(a.name << ", " << name_of(set) << " beside " << name_of(sets[1]));
      if (set != InstructionSet::baseline || fused.count(a.name) == 0)
        CHECK(a.values == b.values);
      else if (a.values != b.values)
        differ.insert(a.name);
    }
  }
  CHECK(differ.count("tanh") == 1);  // the test sees a difference where there is one
}

}  // namespace belfry
