// SPDX-License-Identifier: MIT
// Saving beside training, stops through the round record, memory that ends, replicas that differ.
#include "belfry/towers/background.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "belfry/core/delay.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Writes that take their time, or fail while `full`.
struct SlowFiles : FileOps {
  std::ptrdiff_t write(int fd, const void* data, std::size_t size) override {
    overlapped = writing.fetch_add(1) != 0 || overlapped;
    delay(seconds);
    --writing;
    if (!full) return FileOps::write(fd, data, size);
    errno = ENOSPC;
    return -1;
  }
  std::atomic<double> seconds{0};
  std::atomic<bool> full{false}, overlapped{false};
  std::atomic<int> writing{0};
};

}  // namespace

TEST_CASE("background: a load waits for the save under way") {
  const TestFolder folder;
  Context context({.towers = "cpu:1", .seed = 3, .threads_per_tower = 1});
  TowerGroupBase group(context, lin_momentum(), lin());
  SlowFiles files;
  Checkpoint checkpoint(folder / "c", group, files);
  checkpoint.save();
  group.set_parameter("w", {7});
  files.seconds = 0.02;
  checkpoint.save_async();
  group.set_parameter("w", {9});
  checkpoint.load();
  CHECK(weight_of(group) == 7);
}

TEST_CASE("background: a save waits for the one before") {
  const TestFolder folder;
  Context context({.towers = "cpu:1", .seed = 3, .threads_per_tower = 1});
  TowerGroupBase group(context, lin_momentum(), mlp());
  SlowFiles files;
  files.seconds = 0.02;
  Checkpoint checkpoint(folder / "c", group, files);
  checkpoint.save_async();
  checkpoint.save();
  CHECK_FALSE(group.background().busy());
  CHECK_FALSE(files.overlapped);
}

TEST_CASE("background: updates go on while a checkpoint is written, which is of its own update") {
  const TestFolder folder;
  Context context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1});
  TowerGroupBase group(context, lin_momentum(), mlp());
  const Batch batch = batch_of(context, 30);
  group.step(batch, classify);
  const std::string hash = group.parameter_hash();
  SlowFiles files;
  files.seconds = 0.05;
  const double start = now();
  Checkpoint(folder / "c", group, files).save_async();
  const double paused = now() - start;
  int during = 0;
  double longest = 0;
  while (group.background().busy()) {
    const double begin = now();
    group.step(batch, classify);
    longest = std::max(longest, now() - begin);
    ++during;
  }
  const double whole = now() - start;
  std::printf("background save: %.0f ms of writing, paused %.2f ms, %d updates, longest %.2f ms\n",
              1e3 * whole, 1e3 * paused, during, 1e3 * longest);
  CHECK(whole > 0.5);
  CHECK(paused < 0.2);
  CHECK(during > 10);
  CHECK(longest < 0.4);
  group.background().wait();
  TowerGroupBase other(context, lin_momentum(), mlp());
  CHECK(Checkpoint(folder / "c", other).load().clocks.update == 1);
  CHECK(other.parameter_hash() == hash);
}

TEST_CASE("background: a failed write comes out of the next step, and training may go on") {
  const TestFolder folder;
  Context context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1});
  TowerGroupBase group(context, lin_momentum(), mlp()), same(context, lin_momentum(), mlp());
  const Batch batch = batch_of(context, 30);
  SlowFiles files;
  for (TowerGroupBase* g : {&group, &same}) g->step(batch, classify);
  Checkpoint(folder / "c", group, files).save();
  const std::string first = group.parameter_hash();
  for (TowerGroupBase* g : {&group, &same}) g->step(batch, classify);
  files.full = true;
  Checkpoint(folder / "c", group, files).save_async();
  while (group.background().busy()) delay(0.001);
  const std::string before = group.parameter_hash();
  CHECK_THROWS_WITH(group.step(batch, classify),
                    Contains("model.safetensors") && Contains("No space left"));
  CHECK(group.parameter_hash() == before);
  CHECK(group.clocks().attempts == 2);
  TowerGroupBase old(context, lin_momentum(), mlp());
  Checkpoint(folder / "c", old).load();
  CHECK(old.parameter_hash() == first);
  for (TowerGroupBase* g : {&group, &same}) CHECK(g->step(batch, classify).update == 3);
  CHECK(group.parameter_hash() == same.parameter_hash());
  files.full = false;
  Checkpoint(folder / "c", group, files).save_async();
  Checkpoint(folder / "c", group, files).save();  // waits for it
  CHECK(Checkpoint(folder / "c", old).load().clocks.update == 3);
}

TEST_CASE(
    "background: a trainer's failed save ends the run with the checkpoint before, all waited") {
  const TestFolder folder;
  SlowFiles files;
  LinRun run(2, 50, lin_momentum());
  struct Fill : Hook {
    explicit Fill(SlowFiles& f) : files(f) {}
    std::string name() const override { return "fill"; }
    int order() const override { return 50; }
    void on_update(TrainRun& run, const Report& r) override {
      run.group.background().wait();
      if (r.update == 2) files.full = true;
    }
    SlowFiles& files;
  };
  CHECK_THROWS_AS(
      run.train({.output = folder / "out", .files = &files},
                {make_hook("checkpoint", "every = \"1u\""), std::make_shared<Fill>(files)}),
      CheckpointError);
  CHECK(newest_checkpoint(folder / "out", false, {}) == folder / "out/step_2");
  LinRun slow(2, 5, lin_momentum());
  SlowFiles late;
  late.seconds = 0.02;
  CHECK(slow.train({.output = folder / "late", .files = &late},
                   {make_hook("checkpoint", "every = \"1u\"\nkeep = 1")})
            .complete);
  CHECK(list_checkpoints(folder / "late") == std::vector<std::int64_t>{5});
}

TEST_CASE("background: a job of the last update is waited for, its failure ends the run") {
  struct Late : Hook {
    std::string name() const override { return "late"; }
    int order() const override { return 50; }
    void on_update(TrainRun& run, const Report& r) override {
      if (r.update != 3) return;
      run.group.background().start([] {
        delay(0.05);
        throw DataError("too late");
      });
    }
  };
  LinRun run(2, 3, lin_momentum());
  CHECK_THROWS_WITH(run.train({}, {std::make_shared<Late>()}), Contains("too late"));
}

TEST_CASE(
    "stop: asked for from any tower, the update in which it is seen is the last, everywhere") {
  for (const int towers : {1, 2, 4}) {
    const TestFolder folder;
    LinRun run(towers, 50, lin_momentum()), straight(towers, 7, lin_momentum());
    const TrainResult result =
        run.train({.output = folder.path()}, {make_hook("checkpoint", "every = \"1000u\"")},
                  [&](Module& m, const Batch& b, Step& s) {
                    if (s.update == 7 && s.tower == towers - 1) run.group.request_stop();
                    return lin_loss(m, b, s);
                  });
    CHECK(result.updates == 7);
    CHECK_FALSE(result.complete);
    CHECK_THAT(result.stopped, Contains("stop"));
    CHECK(list_checkpoints(folder.path()) == std::vector<std::int64_t>{7});
    straight.train({}, {});
    CHECK(run.w() == straight.w());
    Batch batch;  // answered: the group goes on
    REQUIRE(run.loader.next(batch));
    CHECK_FALSE(run.group.step(batch, lin_loss).stop);
  }
}

TEST_CASE("stop: out of memory at update 5: towers joined, nothing changed, checkpoint 4 loads") {
  const TestFolder folder;
  LinRun run(3, 50, lin_momentum()), straight(3, 4, lin_momentum());
  const LossFn greedy = [&](Module& m, const Batch& b, Step& s) {
    if (s.update == 5 && s.tower == 1) {
      Arena& arena = b["x"].device().arena();
      Device& own = run.context.device(1);
      own.arena().set_limit(own.arena().stats().reserved_bytes);
      (void)arena;
      const Tensor large = Tensor::empty(Shape{1 << 20}, DType::f32, own);
    }
    return lin_loss(m, b, s);
  };
  CHECK_THROWS_WITH(
      run.train({.output = folder.path()}, {make_hook("checkpoint", "every = \"1u\"")}, greedy),
      Contains("out of memory") && Contains("tower 1") && Contains("update 5"));
  straight.train({}, {});
  CHECK(run.w() == straight.w());
  CHECK(newest_checkpoint(folder.path(), false, {}) == folder / "step_4");
  run.context.device(1).arena().set_limit(std::size_t{1} << 40);
  LinRun rest(3, 6, lin_momentum());
  CHECK(rest.train({.output = folder.path(), .resume = "newest"}, {make_hook("checkpoint")})
            .updates == 2);
}

TEST_CASE("replicas: a bit that flips is found within n updates: variable, towers, update") {
  for (const int bad : {0, 2}) {
    Context context({.towers = "cpu:3", .seed = 3, .threads_per_tower = 1});
    TowerGroupBase group(context, lin_momentum(), mlp(),
                         {.variables = Variables::replicated, .check_replicas = 5});
    const Batch batch = batch_of(context, 30);
    for (int i = 0; i < 6; ++i) group.step(batch, classify);
    // A cell that has gone bad: every update writes the replica, and the bit is wrong again.
    const Tensor weight = group.replica(bad).variables()[2]->value();
    std::string text;
    std::int64_t update = 0;
    try {
      for (int i = 0; i < 5; ++i) {
        static_cast<unsigned char*>(weight.raw())[5] ^= 1;
        update = group.step(batch, classify).update;
      }
    } catch (const DeviceError& error) {
      text = error.what();
    }
    CAPTURE(text, update, bad);
    CHECK(update == 10);  // update 11 was not begun
    CHECK_THAT(text, Contains("the replicas differ, first in variable " +
                              group.replica(0).variables()[2]->name()) &&
                         Contains("update 10") && Contains("tower " + std::to_string(bad)));
    CHECK_THROWS_AS(group.step(batch, classify), CommError);  // to be destroyed
  }
}

TEST_CASE("replicas: comparing every 100 updates costs little", "[slow]") {
  struct Wide : Module {
    Linear hidden{*this, "hidden", 64, 4000, Activation::tanh};
    Linear head{*this, "head", 4000, 10};
  };
  Context context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1});
  const LossFn loss = [](Module& m, const Batch& b, Step&) {
    auto& net = static_cast<Wide&>(m);
    return cross_entropy(net.head(net.hidden(b["image"])), b["label"]);
  };
  const Batch batch = batch_of(context, 64);
  const auto group = [&](std::int64_t every) {
    return std::make_unique<TowerGroupBase>(
        context, lin_momentum(), [] { return std::make_unique<Wide>(); },
        GroupOptions{.variables = Variables::replicated, .check_replicas = every});
  };
  const auto seconds = [&](TowerGroupBase& g) {
    const double start = now();
    for (int i = 0; i < 100; ++i) g.step(batch, loss);
    return (now() - start) / 100;
  };
  const auto plain = group(0), checked = group(1);
  double without = 1e9, each = 1e9;  // the best of rounds in turn: other work comes and goes
  for (int round = 0; round < 6; ++round) {
    without = std::min(without, seconds(*plain));
    each = std::min(each, seconds(*checked));
  }
  const double share = (each - without) / 100 / without;
  std::printf(
      "replicas: %.3f ms an update, %.3f ms a comparison of 296,010 parameters: %.3f %% at "
      "n = 100\n",
      1e3 * without, 1e3 * (each - without), 100 * share);
  CHECK(share < 0.005);
}

TEST_CASE("evaluation with averaged parameters takes one copy of them for all towers") {
  Context context({.towers = "cpu:3", .threads_per_tower = 1});
  TowerGroupBase towers(context, momentum({.lr = 0.3}).with_ema(0.9), mlp());
  towers.step(batch_of(context, 40), classify);
  const auto eval = [&](bool ema) {
    Loader loader(context, blobs(40), {.batch = 40, .shuffle = false});
    return towers.evaluate(loader, classify, ema);
  };
  eval(false);
  const std::size_t before = towers.memory(2).reserved_bytes;
  CHECK(eval(true).rows == 40);
  CHECK(towers.memory(2).reserved_bytes == before);
}
