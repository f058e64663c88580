// SPDX-License-Identifier: MIT
// What guard, recording, statistics and strict mode cost: whole steps of groups that differ in
// nothing else, interleaved.
#include <memory>
#include <string>
#include <vector>

#include "belfry/bench/common/images.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/results.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/session.h"

namespace belfry::bench {
namespace {

constexpr int kCallsPerRound = 20, kWarmUp = 10;

struct Variant {
  std::string name, text;
  Optimizer optimizer;
  bool recorded = false;
  std::unique_ptr<TowerGroupBase> group;
  Samples seconds;
};

std::vector<Variant> variants(int towers) {
  const auto base = [] { return momentum({.lr = 0.01, .momentum = 0.9}); };
  std::vector<Variant> out;
  const auto add = [&](const std::string& name, const std::string& text, Optimizer o) {
    out.push_back({name, text, std::move(o), false, nullptr, {}});
  };
  Optimizer none = base();
  none.guard = false;
  add("none", "no guard, one pass", none);
  add("guard", "guard (default)", base());
  add("recorded", "guard, recorded", base());
  out.back().recorded = true;
  add("clip", "guard and norm clip", base().clip_global_norm(1e6));
  if (towers > 1) {
    add("norms", "guard and norms of units", base().with_statistics(Statistics::norms));
    add("squares", "guard and mean of squares", base().with_statistics(Statistics::squares));
  }
  add("strict_same", "strict, a virtual shard a tower", base().strict(towers));
  if (towers < 8) add("strict_8", "strict, 8 virtual shards", base().strict(8));
  return out;
}

bool run(const Options& options) {
  Results results("modes");
  results.setting("model", options.model);
  results.setting("towers", std::to_string(options.towers));
  results.setting("rows_per_tower", std::to_string(options.batch));
  Context context({.towers = "cpu:" + std::to_string(options.towers), .threads_per_tower = 1});
  const std::int64_t rows = options.batch * options.towers;
  Loader loader(context, images(rows), {.batch = rows, .shuffle = false, .prefetch = 0});
  Batch batch;
  loader.next(batch);
  const LossFn loss = classifier_loss();
  const std::shared_ptr<ModelFactory> model =
      builtin().table<ModelEntry>().at(options.model, "model").make();
  std::vector<Variant> all = variants(options.towers);
  for (Variant& v : all) {
    GroupOptions group;
    group.capture = v.recorded;
    v.group = std::make_unique<TowerGroupBase>(
        context, v.optimizer,
        [&] {
          return model->build(Shape{28, 28, 1}, 10);
        },
        group);
    for (int i = 0; i < kWarmUp; ++i) v.group->step(batch, loss);
  }
  for (int r = 0; r < options.rounds; ++r)
    for (Variant& v : all)
      v.seconds.add(median_seconds(kCallsPerRound, [&] { v.group->step(batch, loss); }));
  const Samples& guard = all[1].seconds;
  for (const Variant& v : all) {
    results.figure(v.name, v.text, v.seconds, "us", 1e6);
    results.figure(v.name + "_over_guard", "  / guard", ratio(v.seconds, guard), "x");
  }
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
