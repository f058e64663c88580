// SPDX-License-Identifier: MIT
#include <memory>
#include <numeric>

#include "belfry/autodiff/nn/batch_norm.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/core/error.h"
#include "belfry/data/memory.h"
#include "belfry/optim/optimizer.h"
#include "belfry/optim/rules/lamb.h"
#include "belfry/tests/sim/engine.h"

namespace belfry::sim {
namespace {

// Five blocks of 4096 elements in two buckets: head, gate and middle fill the first two exactly, so
// the second bucket holds nothing that is ready when the first one is.
struct Net : Module {
  Linear hidden{*this, "hidden", 96, 120, Activation::tanh};
  Linear middle{*this, "middle", 120, 64, Activation::tanh};
  Linear head{*this, "head", 64, 5};
  Variable gate{*this, "gate", Shape{5}, Init::zeros()};
  Tensor forward(const Tensor& x) { return head(middle(hidden(x))); }
};

struct NormedNet : Net {
  BatchNorm norm{*this, "norm", 30, Activation::relu};
  Tensor forward(const Tensor& x) {
    const Tensor y = norm(reshape(hidden(x), {x.shape()[0], 4, 30}));
    return head(middle(reshape(y, {x.shape()[0], 120})));
  }
};

std::shared_ptr<const Dataset> data(std::int64_t rows) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    y.push_back(static_cast<std::int32_t>(r % 5));
    for (int f = 0; f < 96; ++f)
      x.push_back(static_cast<float>((r * 7 + f * 5) % 11) / 11 - 0.5f +
                  (f % 5 == r % 5 ? 1.f : 0.f));
  }
  return memory_dataset(std::move(x), Shape{96}, std::move(y), 5);
}

template <class E>
std::string described(const char* name, const E& e) {
  return std::string(name) + ": " + e.what();
}

template <class N>
void train(Context& context, const Run& run, GroupOptions options, Outcome& out) {
  options.capture = run.capture;
  options.check_capture = 4;
  options.first_bucket_bytes = 2 * kBlock * sizeof(float);
  TowerGroup<N> group(context, run.optimizer(), options);
  Loader loader(
      context, data(run.rows),
      {.batch = run.batch, .epochs = 100, .shuffle = run.shuffle, .prefetch = run.prefetch});
  const auto evaluated = [&](std::int64_t rows, std::int64_t per_batch, bool ema = false) {
    Loader loader_of_rows(context, data(rows),
                          {.batch = per_batch, .epochs = 1, .shuffle = false, .prefetch = 1});
    return group
        .evaluate(
            loader_of_rows,
            [](N& net, const Batch& b, Step&) {
              return cross_entropy(net.forward(b["image"]), b["label"]);
            },
            ema)
        .loss;
  };
  Batch batch;
  for (std::int64_t k = 1; k <= run.updates && loader.next(batch); ++k) {
    const bool gated = run.branch && k % 2 == 0;
    const auto report = group.step(batch, [&](N& net, const Batch& b, Step&) {
      Tensor logits = net.forward(b["image"]);
      if (gated) logits = mul(logits, net.gate);
      return cross_entropy(logits, b["label"]);
    });
    out.losses.push_back(report.loss());
    if (run.evaluate) out.losses.push_back(evaluated(5, 3));
  }
  if (run.optimizer().statistics == Statistics::squares)
    for (const GroupArray& a : group.squares())
      out.losses.push_back(std::accumulate(a.values.begin(), a.values.end(), 0.0));
  out.losses.push_back(evaluated(24, 24));  // every tower's parameters, also when shards are fixed
  if (run.optimizer().ema > 0) out.losses.push_back(evaluated(24, 24, true));
  out.hash = group.parameter_hash();
}

void guarded(Outcome& out, const std::function<void()>& body) {
  try {
    body();
  } catch (const DeviceError& e) {
    out.error = described("DeviceError", e);
  } catch (const CommError& e) {
    out.error = described("CommError", e);
  } catch (const Error& e) {
    out.error = described("Error", e);
  } catch (const std::exception& e) {
    out.error = described("exception", e);
  }
}

}  // namespace

ContextOptions context_options(const Run& run) {
  return {.towers = "cpu:" + std::to_string(run.towers), .seed = 3, .threads_per_tower = 1};
}

GroupOptions group_options(const Run& run) {
  GroupOptions o;
  o.variables = run.way == Way::shared ? Variables::shared : Variables::replicated;
  o.check_replicas = run.check_replicas;
  return o;
}

void run_in(const Run& run, const ContextOptions& context, const GroupOptions& group,
            Outcome& out) {
  guarded(out, [&] {
    Context made(context);
    run.norm ? train<NormedNet>(made, run, group, out) : train<Net>(made, run, group, out);
  });
}

Outcome run_plain(const Run& run, Executor executor) {
  Outcome out;
  ContextOptions options = context_options(run);
  options.executor = executor;
  run_in(run, options, group_options(run), out);
  return out;
}

std::vector<Run> all_runs(int towers) {
  const auto with = [](std::function<void(Optimizer&)> change) {
    return [change = std::move(change)] {
      Optimizer o = momentum({.lr = 0.05});
      change(o);
      return o;
    };
  };
  std::vector<Run> out;
  for (const Way way : {Way::shared, Way::replicated, Way::collectives}) {
    const std::string name = way == Way::shared       ? "shared"
                             : way == Way::replicated ? "replicated"
                                                      : "collectives";
    const auto add = [&](const std::string& label, std::function<void(Optimizer&)> change) {
      Run run;
      run.label = label + ", " + name;
      run.towers = towers;
      run.way = way;
      run.optimizer = with(std::move(change));
      out.push_back(run);
      return &out.back();
    };
    add("guard", [](Optimizer&) {});
    add("clip, l2, ema, evaluation", [](Optimizer& o) {
      o.clip_global_norm(0.5), o.l2 = 0.01, o.ema = 0.9;
    })->evaluate = true;
    out.back().check_replicas = 1;
    add("no statistics", [](Optimizer& o) { o.guard = false; });
    add("layer-wise rates, no statistics, ema", [](Optimizer& o) {
      o = lamb({.lr = 0.05});
      o.guard = false;
      o.ema = 0.9;
    });
    add("layer-wise rates, strict of 8, recorded", [](Optimizer& o) {
      o = lamb({.lr = 0.05}).strict(8);
    })->capture = true;
    add("accumulate 2, squares", [](Optimizer& o) {
      o.accumulate = 2;
      o.statistics = Statistics::squares;
    });
    add("a gradient that comes and goes", [](Optimizer&) {})->branch = true;
    add("strict of 8", [](Optimizer& o) { o.strict(8).with_statistics(Statistics::squares); });
    add("strict of 8 or 9, accumulate 2, no statistics", [towers](Optimizer& o) {
      o.strict(towers == 8 ? 9 : 8).accumulating(2);
      o.guard = false;
    });
    for (const bool accumulate : {false, true}) {
      Run* r = add(accumulate ? "recorded, accumulate 2, squares" : "recorded, clip",
                   [accumulate](Optimizer& o) {
                     if (accumulate)
                       o.accumulating(2).with_statistics(Statistics::squares);
                     else
                       o.clip_global_norm(0.5);
                   });
      r->capture = true;
      r->updates = 7;  // three kinds of shards: given, recorded, replayed
    }
    add("recorded, strict of 8", [](Optimizer& o) { o.strict(8); })->capture = true;
    add("empty towers, no prefetch, evaluation", [](Optimizer&) {})->batch = 2;
    out.back().evaluate = true;
    out.back().prefetch = 0;
    add("batch norm, empty towers, evaluation", [](Optimizer&) {})->norm = true;
    out.back().batch = 2;
    out.back().evaluate = true;
    add("batch norm, accumulate 2, no statistics", [](Optimizer& o) {
      o.accumulate = 2;
      o.guard = false;
    })->norm = true;
    add("batch norm, strict of 8", [](Optimizer& o) { o.strict(8); })->norm = true;
    for (const bool strict : {false, true}) {
      Run* r =
          add(strict ? "recorded batch norm, strict of 8" : "recorded batch norm, accumulate 2",
              [strict](Optimizer& o) { strict ? o.strict(8) : o.accumulating(2); });
      r->norm = r->capture = true;
      r->updates = 7;
    }
  }
  return out;
}

}  // namespace belfry::sim
