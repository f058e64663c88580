// SPDX-License-Identifier: MIT
// LeNet on GPUs: convolutions go through the seam of convolutions.cpp, all else is the plug-in's
// own.
#include <algorithm>
#include <cmath>
#include <vector>

#include "belfry/core/registry.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/losses.h"
#include "belfry/towers/group.h"
#include "belfry/towers/model.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

struct LenetRun {
  std::vector<double> losses;
  std::string hash;
  bool operator==(const LenetRun&) const = default;
};

// Three updates of 7 images: an uneven shard on 2 and 4 towers.
LenetRun train(ContextOptions options, bool capture, bool strict) {
  constexpr std::int64_t kRows = 7, kUpdates = 3;
  options.seed = 5;
  Context context(options);
  const auto model = builtin().table<ModelEntry>().at("lenet", "model").make();
  Optimizer optimizer = momentum({.lr = 0.02}).clip_global_norm(1.0);
  if (strict) optimizer.strict(4);
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < kRows * 28 * 28; ++i)
    pixels.push_back(static_cast<float>(i * 7919 % 256) / 255);
  for (int i = 0; i < kRows; ++i) labels.push_back(i * 3 % 10);
  Loader loader(context, memory_dataset(std::move(pixels), Shape{28, 28, 1}, std::move(labels), 10),
                {.batch = kRows, .epochs = kUpdates});
  GroupOptions group_options;
  group_options.variables = Variables::replicated;
  group_options.capture = capture;
  TowerGroupBase group(
      context, optimizer,
      [&model] {
        return model->build(Shape{28, 28, 1}, 10);
      },
      group_options);
  LenetRun out;
  test::step_all(group, loader, "image", out.losses);
  out.hash = group.parameter_hash();
  return out;
}

LenetRun on_cpu(int towers) {
  ContextOptions options;
  options.towers = "cpu:" + std::to_string(towers);
  options.threads_per_tower = 1;
  return train(options, false, false);
}

LenetRun on_gpus(int gpus, std::uint64_t seed, bool capture = false, bool strict = false) {
  Gpus machine(gpus, {.seed = seed});
  LenetRun out = train(machine.options(), capture, strict);
  CHECK(machine.faults() == std::vector<std::string>{});
  return out;
}

}  // namespace

TEST_CASE("lenet on GPUs follows the CPU, given and recorded, under any order of execution",
          "[cuda][lenet]") {
  for (const int gpus : {1, 2, 4}) {
    const LenetRun want = on_cpu(gpus), first = on_gpus(gpus, 1);
    REQUIRE(first.losses.size() == 3);
    for (std::size_t i = 0; i < want.losses.size(); ++i)
      CHECK(std::fabs(first.losses[i] - want.losses[i]) <= 1e-5 * want.losses[i]);
    for (std::uint64_t seed = 1; seed <= std::min<std::uint64_t>(seeds(2), 20); ++seed) {
      INFO(gpus << " GPUs, seed " << seed);
      CHECK(on_gpus(gpus, seed) == first);
      CHECK(on_gpus(gpus, seed, true) == first);
    }
  }
}

TEST_CASE("lenet in strict mode has the same bits on 1, 2, 3 and 4 GPUs", "[cuda][lenet]") {
  const LenetRun want = on_gpus(1, 1, false, true);
  for (const int gpus : {2, 3, 4}) {
    CHECK(on_gpus(gpus, 1, false, true) == want);
    CHECK(on_gpus(gpus, 2, true, true) == want);
  }
}
