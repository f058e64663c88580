// SPDX-License-Identifier: MIT
// What else a group does between updates: nothing of it may leave work on a stream that uses memory
// of a caller who has gone on.
#include <chrono>
#include <memory>
#include <stdexcept>

#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/core/error.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/communicator.h"
#include "belfry/tests/sim/engine.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

const std::vector<std::string> kNothing;

struct Small : Module {
  Linear hidden{*this, "hidden", 6, 2100, Activation::tanh};
  Linear head{*this, "head", 2100, 3};
  Tensor forward(const Tensor& x) { return head(hidden(x)); }
};

Loss loss_of(Small& net, const Batch& b) {
  return cross_entropy(net.forward(b["image"]), b["label"]);
}

std::shared_ptr<const Dataset> rows(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(6 * n));
  std::vector<std::int32_t> y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 13) / 13;
  for (std::int64_t r = 0; r < n; ++r) y.push_back(static_cast<std::int32_t>(r % 3));
  return memory_dataset(std::move(x), Shape{6}, std::move(y), 3);
}

struct World {
  World(std::uint64_t seed, Way way, const Optimizer& optimizer, bool separate_memory)
      : platform(std::make_shared<SimPlatform>(SchedulerOptions{.seed = seed}, separate_memory)),
        context({.towers = "cpu:3", .seed = 3, .threads_per_tower = 1, .platform = platform}),
        group(context, optimizer, options(way)),
        loader(context, rows(12), {.batch = 6, .epochs = 100, .shuffle = false, .prefetch = 0}) {}
  GroupOptions options(Way way) {
    GroupOptions o;
    o.variables = way == Way::shared ? Variables::shared : Variables::replicated;
    if (way == Way::collectives) o.make_transport = sim_transport(platform->scheduler());
    return o;
  }
  // Elements 0, 1/8, 2/8, ... that the device has yet to write.
  Tensor queued(const Shape& shape, int device) {
    const Tensor t = Tensor::empty(shape, DType::f32, context.device(device));
    t.device().main().run(Touches().writes(t.raw(), t.bytes()),
                          [p = t.data<float>(), n = t.size()] {
                            for (std::int64_t i = 0; i < n; ++i) p[i] = static_cast<float>(i) / 8;
                          });
    return t;
  }
  void step() {
    REQUIRE(loader.next(batch));
    group.step(batch, [](Small& net, const Batch& b, Step&) { return loss_of(net, b); });
  }
  const std::vector<std::string>& reports() { return platform->scheduler().reports(); }

  std::shared_ptr<SimPlatform> platform;
  Context context;
  TowerGroup<Small> group;
  Loader loader;
  Batch batch;
};

template <class Body>
void everywhere(const Optimizer& optimizer, Body body) {
  for (const Way way : {Way::shared, Way::replicated, Way::collectives})
    for (std::uint64_t seed = 1; seed <= seeds(10); ++seed)
      for (const bool separate : {false, true}) {
        INFO("way " << static_cast<int>(way) << ", seed " << seed << ", separate " << separate);
        World w(seed, way, optimizer, separate);
        body(w);
        CHECK(w.reports() == kNothing);
      }
}

}  // namespace

TEST_CASE("after a refused update its batch may be overwritten", "[lifetimes]") {
  everywhere(sgd({.lr = 0.1}), [](World& w) {
    for (int k = 0; k < 4; ++k) {
      REQUIRE(w.loader.next(w.batch));
      const auto fn = [&](Small& net, const Batch& b, Step& s) {
        Loss loss = loss_of(net, b);
        if (k % 2 == 1 && s.tower == 1) throw std::runtime_error("no");
        return loss;
      };
      if (k % 2 == 1)
        CHECK_THROWS(w.group.step(w.batch, fn));
      else
        w.group.step(w.batch, fn);
    }
  });
}

TEST_CASE("gradients, their average and apply leave nothing behind", "[lifetimes]") {
  everywhere(adam({.second_moment = "towers"}), [](World& w) {
    for (int k = 0; k < 2; ++k) {
      REQUIRE(w.loader.next(w.batch));
      auto g = w.group.gradients(w.batch,
                                 [](Small& net, const Batch& b, Step&) { return loss_of(net, b); });
      auto mean = average_gradients(g.towers, {.include_square = true, .weights = g.weights});
      g = {};
      w.group.apply(mean);
      mean = {};
      w.step();
    }
  });
}

TEST_CASE("a mean that its device has yet to write may be applied at once", "[lifetimes]") {
  everywhere(sgd({.lr = 0.1}), [](World& w) {
    AveragedGradients mean;
    int device = 0;
    for (const Variable* v : w.group.replica(0).variables())
      mean.mean.emplace_back(w.queued(v->shape(), device++ % 3), v->name());
    w.group.apply(mean);
  });
}

TEST_CASE("a batch that its device has yet to write may be used at once", "[lifetimes]") {
  for (const Way way : {Way::replicated, Way::collectives})
    for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
      INFO("way " << static_cast<int>(way) << ", seed " << seed);
      World w(seed, way, sgd({.lr = 0.1}), true);
      REQUIRE(w.loader.next(w.batch));
      const auto fn = [](Small& net, const Batch& b, Step&) { return loss_of(net, b); };
      for (int use = 0; use < 2; ++use) {
        Batch b;
        b.place(w.batch);
        b.add("image", w.queued({w.batch.rows, 6}, use));
        b.add("label", w.batch["label"]);
        if (use == 0)
          w.group.step(b, fn);
        else
          w.group.gradients(b, fn);
      }
      CHECK(w.reports() == kNothing);
    }
}

TEST_CASE("clocks and arrays may be set from memory that goes", "[lifetimes]") {
  everywhere(adam({}), [](World& w) {
    w.step();
    const auto arrays = w.group.arrays();
    const auto clocks = w.group.clocks();
    w.step();
    w.group.set_arrays(arrays);
    w.group.set_clocks(clocks);
    w.step();
  });
}

TEST_CASE("an evaluation with averaged parameters may follow an update at once", "[lifetimes]") {
  Optimizer o = sgd({.lr = 0.1});
  o.ema = 0.9;
  everywhere(o, [](World& w) {
    for (int k = 0; k < 2; ++k) {
      w.step();
      Loader some(w.context, rows(9), {.batch = 3, .epochs = 1, .shuffle = false, .prefetch = 0});
      w.group.evaluate(
          some, [](Small& net, const Batch& b, Step&) { return loss_of(net, b); }, true);
    }
  });
}

TEST_CASE("a tensor made from values does not need them any more", "[lifetimes]") {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    SimPlatform platform({.seed = seed});
    const auto host = platform.host();
    const auto device = platform.device(0, 1);
    for (int k = 0; k < 3; ++k) {
      const Tensor t = Tensor::from({1, 2, 3}, {3}, DType::f32, *device);
      CHECK(platform.scheduler().reports() == kNothing);
      CHECK(t.to_vector() == std::vector<double>{1, 2, 3});
    }
    CHECK(platform.scheduler().reports() == kNothing);
  }
}

TEST_CASE("a loader that goes wakes its thread", "[lifetimes]") {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    const auto platform = std::make_shared<SimPlatform>(SchedulerOptions{.seed = seed});
    Context context({.towers = "cpu:1", .threads_per_tower = 1, .platform = platform});
    {
      Loader loader(context, rows(12), {.batch = 3, .epochs = 9, .shuffle = false, .prefetch = 1});
      Batch batch;
      REQUIRE(loader.next(batch));
      for (int k = 0; k < 5; ++k) platform->scheduler().threads().pass(true);  // until it waits
    }
    CHECK(platform->scheduler().reports() == kNothing);
  }
}

TEST_CASE("a loader with a time limit that goes waits for its thread no longer than needed",
          "[lifetimes]") {
  Context context({.towers = "cpu:1", .threads_per_tower = 1});
  auto loader = std::make_unique<Loader>(
      context, rows(12),
      LoaderOptions{
          .batch = 3, .epochs = 9, .prefetch = 1, .delay_seconds = 0.1, .timeout_seconds = 20});
  Batch batch;
  REQUIRE(loader->next(batch));
  const auto start = std::chrono::steady_clock::now();
  loader.reset();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("a batch given back while a stream still reads it is reported when it is filled again",
          "[lifetimes]") {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed)
    for (const bool waits : {true, false}) {
      const auto platform = std::make_shared<SimPlatform>(SchedulerOptions{.seed = seed});
      Context context({.towers = "cpu:1", .threads_per_tower = 1, .platform = platform});
      Loader loader(context, rows(40), {.batch = 4, .epochs = 1, .shuffle = false, .prefetch = 0});
      Stream& s = context.device(0).main();
      for (Batch b; loader.next(b);) {
        s.run(Touches().reads(b["image"].raw(), b["image"].bytes()), [] {});
        if (waits) s.synchronize();
      }
      s.synchronize();
      CHECK(platform->scheduler().reports().empty() == waits);
    }
}
