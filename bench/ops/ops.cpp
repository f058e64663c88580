// SPDX-License-Identifier: MIT
// Kernels on data in cache, in ns an element and beside a copy of as many floats: what a compiler
// leaves scalar shows here and in no test of results.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "belfry/allreduce/fold.kernel.h"
#include "belfry/autodiff/cast.kernel.h"
#include "belfry/autodiff/ops/elementwise/activations.kernel.h"
#include "belfry/autodiff/ops/elementwise/binary.kernel.h"
#include "belfry/autodiff/ops/image/max_pool2d.kernel.h"
#include "belfry/autodiff/ops/loss/cross_entropy.kernel.h"
#include "belfry/autodiff/ops/loss/cross_entropy_backward.kernel.h"
#include "belfry/autodiff/ops/random/dropout.kernel.h"
#include "belfry/autodiff/ops/reduce/column_sum_call.h"
#include "belfry/autodiff/ops/reduce/sum.kernel.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/results.h"
#include "belfry/device/context.h"
#include "belfry/optim/rules/adam.kernel.h"
#include "belfry/optim/rules/momentum.kernel.h"
#include "belfry/optim/rules/rmsprop.kernel.h"

namespace belfry::bench {
namespace {

constexpr std::size_t kElements = 16384;  // 64 KiB an array: L2
constexpr int kCalls = 200, kBatch = 4;

struct Kernel {
  std::string name;
  double most;  // times a copy
  std::function<void()> run;
};

// The least of many short runs: other work can only add to it.
double seconds_of(const std::function<void()>& fn) {
  double least = 1;
  for (int i = 0; i < kCalls; ++i) {
    const Clock::time_point start = Clock::now();
    for (int k = 0; k < kBatch; ++k) fn();
    least = std::min(least, seconds_since(start) / kBatch);
  }
  return least;
}

class Ops {
 public:
  Ops()
      : context_({.towers = "cpu:1", .threads_per_tower = 1}), stream_(context_.device(0).main()) {
    for (std::size_t k = 0; k < 6; ++k) {
      arrays_.emplace_back(kElements);
      for (std::size_t i = 0; i < kElements; ++i)
        arrays_[k][i] = static_cast<float>(i * (k + 3) % 997) * 0.004f - 2.f + 0.002f;
    }
    for (float& v : arrays_[4]) v = v * v + 1e-3f;  // second moments
    labels_.assign(kElements, 3);
    winners_.resize(kElements);
    narrow_.resize(kElements);
    activations();
    updates();
    rows();
  }

  Samples copy() const {
    Samples s;
    s.add(seconds_of([this] { std::memcpy(out(), in(), kElements * sizeof(float)); }));
    return s;
  }
  const std::vector<Kernel>& kernels() const { return kernels_; }

 private:
  const float* in() const { return arrays_[0].data(); }
  float* out() const { return const_cast<float*>(arrays_[1].data()); }
  float* array(std::size_t k) { return arrays_[k].data(); }

  template <class F>
  void elements(double most, const F& f, std::size_t n = kElements) {
    kernels_.push_back({F::name, most, [this, f, n] { launch_elements(stream_, n, f); }});
  }
  template <class F>
  void teams(const std::string& label, double most, const F& f, std::size_t n) {
    kernels_.push_back({F::name + label, most, [this, f, n] { launch_rows(stream_, n, f); }});
  }

  void activations() {
    elements(1.5, ActivationForward<float, ReluMath>{in(), out()});
    elements(3, ActivationBackward<float, ReluMath>{in(), array(2), out()});
    elements(9, ActivationForward<float, TanhMath>{in(), out()});
    elements(3, ActivationBackward<float, TanhMath>{in(), array(2), out()});
    elements(9, ActivationForward<float, SigmoidMath>{in(), out()});
    elements(3, ActivationBackward<float, SigmoidMath>{in(), array(2), out()});
    elements(16, ActivationForward<float, GeluMath>{in(), out()});
    elements(22, ActivationBackward<float, GeluMath>{in(), array(2), out()});
    elements(3, BinarySame<float, AddMath>{in(), array(2), out()});
    elements(2, Narrow{in(), narrow_.data()});
    elements(2, Widen{narrow_.data(), nullptr, out(), 1});
  }

  UpdateArgs update_args() {
    segment_ = {0, kElements, 0};
    UpdateArgs a{.rows = 1,
                 .segments = &segment_,
                 .size = kElements,
                 .param = out(),
                 .grad = in(),
                 .square = array(5),
                 .scalars = &scalars_,
                 .variables = 1};
    for (std::size_t k = 0; k < kMaxStates; ++k) a.state[k] = array(3 + k);
    return a;
  }
  void updates() {
    scalars_.active = 1, scalars_.step = 3, scalars_.lr = 1e-9f, scalars_.clip = 1;
    teams("", 4, UpdateSegments<MomentumUpdate>{update_args(), {0.9f}}, 1);
    teams("", 10, UpdateSegments<AdamUpdate<false>>{update_args(), {0.9, 0.999, 1e-8f}}, 1);
    teams("", 8, UpdateSegments<RmspropUpdate<false>>{update_args(), {0.99, 0, 1e-8f}}, 1);
    sources_[0] = in(), sources_[1] = array(2);
    FoldArgs a{};
    a.segments = &segment_, a.count = kElements, a.plan = &plan_, a.variables = 1;
    a.sources = a.host_sources = sources_, a.parts = parts_, a.totals = &totals_, a.n = 2;
    a.part_count = 2, a.mean = out(), a.stats = &stats_, a.param = array(3);
    a.config.divide = true;
    plan_.present = 1, parts_[0].weight = parts_[1].weight = 1, totals_.weight = 2;
    teams("", 5, FoldSegments<2>{a}, 1);
    a.config.statistics = true;
    teams(" with statistics", 9, FoldSegments<2>{a}, 1);
  }

  void rows() {
    const std::size_t wide = 1024, narrow = 16;
    for (const std::size_t c : {wide, narrow}) {
      const std::string label = " of " + std::to_string(c);
      const double more = c == narrow ? 4 : 1;  // short rows stay scalar
      teams(label, 14 * more,
            CrossEntropyRow<float>{in(), labels_.data(), out(), array(2), c, {}, 0}, kElements / c);
      teams(label, 4 * more,
            CrossEntropyBackward<float>{in(), labels_.data(), array(4), array(4), out(), c, {}, 0},
            kElements / c);
      teams(label, 4, ColumnSumCall<float>{in(), out(), kElements / c, c}, 1);
    }
    teams("", 25, DropoutRow<float>{{{}, 1, 1, 0, nullptr, 0.5f}, 2, in(), out(), wide},
          kElements / wide);
    teams("", 4, BlockSum<float>{in(), kElements, out()}, kElements / kSumBlock);
    PoolShape pool{.n = 1, .h = 32, .w = 32, .c = 16};
    pool.kernel = pool.stride = 2, pool.oh = pool.ow = 16;
    teams("", 12, MaxPoolForward<float>{pool, in(), out(), winners_.data()}, 16);
  }

  Context context_;
  Stream& stream_;
  std::vector<std::vector<float>> arrays_;
  std::vector<std::int32_t> labels_, winners_;
  std::vector<BFloat16> narrow_;
  SegmentRef segment_{};
  UpdateScalars scalars_;
  const float* sources_[2]{};
  FoldPlan plan_;
  DevicePart parts_[2];
  Totals totals_;
  SegmentStats stats_;
  std::vector<Kernel> kernels_;
};

bool run(const Options& options) {
  Results results("ops");
  results.setting("elements", std::to_string(kElements));
  results.setting("instruction_set", name_of(instruction_set()));
  Ops ops;
  const double ns = 1e9 / kElements;
  Samples copy;
  std::vector<Samples> times(ops.kernels().size());
  for (int r = 0; r < options.rounds; ++r) {
    const Samples now = ops.copy();
    copy.add(now.values[0]);
    for (std::size_t k = 0; k < times.size(); ++k) times[k].add(seconds_of(ops.kernels()[k].run));
  }
  results.figure("copy", "copy of floats", copy, "ns", ns);
  for (std::size_t k = 0; k < times.size(); ++k)
    results.figure(ops.kernels()[k].name, ops.kernels()[k].name, times[k], "ns", ns);
  if (instruction_set() != InstructionSet::baseline)
    for (std::size_t k = 0; k < times.size(); ++k) {
      const std::string name = ops.kernels()[k].name + " / copy";
      results.figure(name, name, ratio(times[k], copy), "x");
      results.at_most(name, ops.kernels()[k].most);
    }
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
