// SPDX-License-Identifier: MIT
// The lists of kernels in the headers: all that ops, rules, updates and list averages launch in f32
// is named there, in the right form, and nothing that none of them launches.
#include <map>
#include <set>

#include "belfry/allreduce/average_gradients.h"
#include "belfry/autodiff/nn/batch_norm.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/ops/matrix/gemm_call.h"
#include "belfry/autodiff/ops/reduce/column_sum_call.h"
#include "belfry/autodiff/ops/sequence/attention_backward_host.kernel.h"
#include "belfry/autodiff/ops/sequence/attention_forward_host.kernel.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/data/memory.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/contract/seen_device.h"
#include "belfry/tests/optim/rule_variants.h"
#include "belfry/towers/group.h"
#include "kernel_lists.h"  // generated: kernel_lists(table)

namespace belfry {
namespace {

struct Kernel {
  bool rows;
  std::size_t bytes;  // of its functor
  bool operator==(const Kernel&) const = default;
};
using Kernels = std::map<std::string, Kernel>;

struct Listed {
  Kernels kernels;
  std::vector<std::string> twice;
  template <class F>
  void elements() {
    add<F>(false);
  }
  template <class F>
  void rows() {
    add<F>(true);
  }
  template <class F>
  void add(bool rows) {
    if (!kernels.emplace(F::name, Kernel{rows, sizeof(F)}).second) twice.push_back(F::name);
  }
};

// Devices that note what is launched on them.
class NotingDevice : public contract::SeenDevice {
 public:
  NotingDevice(int index, Kernels& seen)
      : SeenDevice(index, [&seen](KernelCall& call) {
          seen[call.name] = {call.rows, call.functor_bytes};
        }) {}
};

class NotingPlatform : public Platform {
 public:
  std::unique_ptr<Host> host() override { return make_thread_host(); }
  std::unique_ptr<Device> device(int index, int) override {
    return std::make_unique<NotingDevice>(index, seen_[index]);
  }
  Kernels seen() const {
    Kernels all;
    for (const auto& [index, kernels] : seen_) all.insert(kernels.begin(), kernels.end());
    return all;
  }

 private:
  std::map<int, Kernels> seen_;  // by tower: each has a thread
};

struct Net : Module {
  Linear hidden{*this, "hidden", 12, 40, Activation::tanh};
  BatchNorm norm{*this, "norm", 10};
  Linear head{*this, "head", 40, 5};
};

void train(const std::shared_ptr<Platform>& platform, int towers, const Optimizer& optimizer,
           Variables variables) {
  Context context({.towers = "cpu:" + std::to_string(towers), .platform = platform});
  GroupOptions options;
  options.variables = variables;
  TowerGroup<Net> group(context, optimizer, options);
  std::vector<float> x(12 * 24, 0.25f);
  std::vector<std::int32_t> y(24, 1);
  Loader loader(context, memory_dataset(std::move(x), Shape{12}, std::move(y), 5),
                {.batch = 12, .epochs = 9});
  const auto loss = [](Net& net, const Batch& b, Step&) {
    const Tensor normed = net.norm(reshape(net.hidden(b["image"]), {b.rows, 4, 10}));
    return cross_entropy(net.head(reshape(normed, {b.rows, 40})), b["label"]);
  };
  Batch batch;
  for (int k = 0; k < 2 && loader.next(batch); ++k) group.step(batch, loss);
  const TowerGradients g = group.gradients(batch, loss);
  group.apply(average_gradients(g.towers, {.include_square = true, .weights = g.weights}));
}

void run_ops(const Registry& registry, Kernels& seen) {
  NotingDevice device(0, seen);
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      contract::differentiate(c, DType::f32, device);
      if (c.inputs.empty() || !c.inputs[0].differentiable) continue;
      OpCase twice = c;  // a second use of the input: a sum of gradients
      twice.run = [&](std::span<const Tensor> in) { return add(c.run(in), c.run(in)); };
      contract::differentiate(twice, DType::f32, device);
    }
}

void run_rules(const Registry& registry, Kernels& seen) {
  NotingDevice device(0, seen);
  std::vector<float> param(5), grad(5), square(5);
  std::vector<std::vector<float>> state(kMaxStates, std::vector<float>(5));
  const UpdateScalars scalars;
  const SegmentRef segment{0, 5, 0};
  UpdateArgs args{.rows = 1,
                  .segments = &segment,
                  .size = 5,
                  .param = param.data(),
                  .grad = grad.data(),
                  .square = square.data(),
                  .scalars = &scalars,
                  .variables = 1};
  for (std::size_t k = 0; k < state.size(); ++k) args.state[k] = state[k].data();
  for (const auto& [name, entry] : registry.table<RuleEntry>())
    for (const auto& rule : test::rule_variants(entry)) {
      rule->update(device.main(), args);
      if (rule->layerwise()) {
        UpdateScalars scaled;
        SegmentNorms norms;
        const SegmentRange range{0, 1};
        rule->measure(device.main(), args, &norms);
        launch_rows(device.main(), 1, ScaleRates{&norms, 1, &range, &scaled});
      }
      Schema schema;  // again with every part of the rule at work
      rule->declare(schema);
      for (const Key& key : schema.keys())
        if (double* const* value = std::get_if<double*>(&key.target); value && **value == 0)
          **value = 0.5;
      rule->update(device.main(), args);
    }
}

void run_updates(Kernels& seen) {
  const auto platform = std::make_shared<NotingPlatform>();
  Optimizer all = momentum({.lr = 0.05});
  all.clip_global_norm(0.5), all.l2 = 0.01, all.ema = 0.9, all.accumulate = 2;
  all.statistics = Statistics::squares;
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (int towers = 1; towers <= 9; ++towers) train(platform, towers, all, v);
  Optimizer strict = momentum({.lr = 0.05});
  strict.strict(8).with_statistics(Statistics::squares);
  train(platform, 4, strict, Variables::shared);
  for (const auto& [name, kernel] : platform->seen()) seen[name] = kernel;
}

void run_lists(Kernels& seen) {
  NotingDevice device(0, seen);
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const GradientList list{{Tensor::zeros({3}, type, device), "w"}};
    average_gradients({list}, {.include_square = true});
    average_gradients({list, list}, {.include_square = true});
  }
}

}  // namespace

TEST_CASE("all that is launched in f32 is in the lists of kernels", "[kernels]") {
  Listed listed;
  kernel_lists(listed);
  CHECK(listed.twice == std::vector<std::string>{});
  Listed libraries;  // the plug-in's own code under these names
  libraries.rows<GemmCall<float>>();
  libraries.rows<ConvForwardCall>();
  libraries.rows<ConvBackwardDataCall>();
  libraries.rows<ConvBackwardWeightsCall>();
  libraries.rows<ColumnSumCall<float>>();
  libraries.rows<AttentionForward<float>>();
  libraries.rows<AttentionBackward<float>>();

  Kernels seen;
  const Registry registry = builtin();
  run_ops(registry, seen);
  run_rules(registry, seen);
  run_updates(seen);
  run_lists(seen);
  for (const auto& [name, kernel] : seen) {
    INFO(name);
    const bool library = libraries.kernels.count(name) != 0;
    const Kernels& where = library ? libraries.kernels : listed.kernels;
    REQUIRE(where.count(name) == 1);
    CHECK(where.at(name) == kernel);
    CHECK(listed.kernels.count(name) == (library ? 0 : 1));
  }
  // Launched by the plug-in's library calls, on devices without host memory, between processes or
  // by recorded passes.
  const std::set<std::string> elsewhere = {"attention_key_backward_f32",
                                           "attention_query_backward_f32",
                                           "attention_query_f32",
                                           "check_labels",
                                           "column_partials",
                                           "column_totals",
                                           "narrow_to_bf16",
                                           "plain_conv_backward_data_f32",
                                           "plain_conv_backward_weights_f32",
                                           "plain_conv_forward_f32",
                                           "set_numbers",
                                           "sum_members",
                                           "widen_from_bf16"};
  for (const auto& [name, kernel] : listed.kernels) {
    INFO(name);
    CHECK((seen.count(name) == 1) == (elsewhere.count(name) == 0));
  }
}

}  // namespace belfry
