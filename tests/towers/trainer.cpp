// SPDX-License-Identifier: MIT
#include "belfry/towers/trainer.h"

#include <cmath>
#include <csignal>
#include <limits>

#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

// Calls a function after every update.
struct AfterUpdate : Hook {
  explicit AfterUpdate(std::function<void(TrainRun&, const Report&)> f) : call(std::move(f)) {}
  std::string name() const override { return "after_update"; }
  int order() const override { return -100; }
  void on_update(TrainRun& run, const Report& report) override { call(run, report); }
  std::function<void(TrainRun&, const Report&)> call;
};

std::function<EvalReport()> scores(std::vector<double> values) {
  auto left = std::make_shared<std::vector<double>>(std::move(values));
  return [left] {
    REQUIRE_FALSE(left->empty());
    EvalReport out;
    out.rows = 8;
    out.metrics["accuracy"] = left->front();
    left->erase(left->begin());
    return out;
  };
}

volatile std::sig_atomic_t raised = 0;

}  // namespace

TEST_CASE(
    "B02 the trainer's result does not depend on the towers: w = 0.8150715692 after 10 updates") {
  for (const int towers : {1, 2, 3, 4, 8}) {
    LinRun run(towers, 10, sgd({.lr = 0.001}));
    const TrainResult result = run.train({}, {});
    CHECK(result.complete);
    CHECK(result.updates == 10);
    CHECK(run.w() == Approx(0.8150715692).epsilon(1e-6));
  }
}

TEST_CASE("B34 fewer rows than a batch: one update an epoch, w = 0.01866667") {
  LinRun run(2, 1, sgd({.lr = 0.001}), 3, 8);
  CHECK(run.train({}, {}).updates == 1);
  CHECK(run.w() == Approx(0.01866667).epsilon(1e-6));
}

TEST_CASE(
    "B25 NaN on tower 2 at update 3: NumericError, weights of update 2, newest checkpoint "
    "untouched") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const LossFn loss = [bad](Module& m, const Batch& b, Step& s) {
      Loss out = lin_loss(m, b, s);
      if (s.update == 3 && s.tower == 2)
        out.mean = mul(out.mean,
                       Tensor::from({static_cast<double>(bad)}, {}, DType::f32, b["x"].device()));
      return out;
    };
    const TestFolder folder;
    LinRun run(4, 5, lin_momentum()), two(4, 2, lin_momentum());
    two.train({}, {});
    const auto train = [&] {
      run.train({.output = folder.path()},
                {make_hook("checkpoint", "every = 1"), make_hook("guard")}, loss);
    };
    CHECK_THROWS_WITH(train(),
                      Contains("tower 2") && Contains("update 3") && Contains("variable w"));
    CHECK(run.w() == two.w());
    CHECK(list_checkpoints(folder.path()) == std::vector<std::int64_t>{1, 2});

    Messages messages;
    LinRun skipping(4, 5, lin_momentum(), 8, 8, messages.log());
    const TrainResult result = skipping.train({}, {make_hook("guard", "skip = 1")}, loss);
    CHECK(result.complete);
    CHECK(result.updates == 4);
    CHECK(skipping.group.clocks().update == 4);
    CHECK_THAT(messages.text, Contains("skipped 1 of 1"));
  }
}

TEST_CASE(
    "B46 SIGTERM and SIGINT: the update is finished, one checkpoint, and the resumed run is the "
    "same") {
  for (const int number : {SIGTERM, SIGINT}) {
    const TestFolder folder;
    raised = 0;
    std::signal(number, [](int n) { raised = n; });
    LinRun stopped(2, 50, lin_momentum()), rest(2, 50, lin_momentum()),
        straight(2, 50, lin_momentum());
    const auto raise_at_37 = std::make_shared<AfterUpdate>([number](TrainRun&, const Report& r) {
      if (r.update == 37) std::raise(number), std::raise(number);
    });
    const TrainResult result =
        stopped.train({.output = folder.path(), .signal = [] { return static_cast<int>(raised); }},
                      {raise_at_37, make_hook("checkpoint", "every = \"1000u\"")});
    std::signal(number, SIG_DFL);
    CHECK(result.signal == number);
    CHECK_FALSE(result.complete);
    CHECK(list_checkpoints(folder.path()) == std::vector<std::int64_t>{37});
    rest.train({.output = folder.path(), .resume = "newest"},
               {make_hook("checkpoint", "every = \"1000u\"")});
    straight.train({}, {});
    CHECK(rest.w() == straight.w());
  }
}

TEST_CASE("B55 patience and the best score survive a resume; the best file is untouched") {
  const TestFolder folder;
  const auto hooks = [] {
    return std::vector<std::shared_ptr<Hook>>{make_hook("validation", "every = \"1u\""),
                                              make_hook("early_stop", "patience = 3"),
                                              make_hook("checkpoint")};
  };
  LinRun first(1, 3, lin_momentum());
  first.evaluate = scores({0.80, 0.75, 0.78});
  first.train({.output = folder.path()}, hooks());
  const auto best = contents(folder / "best");
  REQUIRE_FALSE(best.empty());
  LinRun second(1, 10, lin_momentum());
  second.evaluate = scores({0.79});
  const TrainResult result = second.train({.output = folder.path(), .resume = "newest"}, hooks());
  CHECK(result.updates == 1);
  CHECK_THAT(result.stopped, Contains("3 validations") && Contains("0.8000"));
  CHECK(contents(folder / "best") == best);
  LinRun third(1, 10, lin_momentum());  // nothing is left of the patience
  CHECK(third
            .train({.output = folder.path(), .resume = "newest"},
                   {make_hook("early_stop"), make_hook("checkpoint")})
            .updates == 6);
}

TEST_CASE(
    "B55 epochs is a total: 4 of 10, 6 more, none, then 2 more of 12; a complete run writes "
    "nothing") {
  const TestFolder folder;
  const auto train = [&](std::int64_t epochs, const std::string& resume,
                         Messages* messages = nullptr) {
    LinRun run(1, epochs, lin_momentum(), 8, 4, messages ? messages->log() : Log{});
    return run.train({.output = folder.path(), .resume = resume},
                     {make_hook("checkpoint"), make_hook("jsonl")});
  };
  CHECK(train(4, "").updates == 8);
  CHECK(train(10, "newest").updates == 12);
  const auto before = contents(folder.path());
  Messages messages;
  const TrainResult again = train(10, "newest", &messages);
  CHECK(again.complete);
  CHECK(again.updates == 0);
  CHECK_THAT(messages.text, Contains("training is complete"));
  CHECK(contents(folder.path()) == before);
  CHECK(train(12, "newest").updates == 4);
}

TEST_CASE("a fresh run does not touch a folder that holds one") {
  const TestFolder folder;
  LinRun first(1, 1, lin_momentum()), second(1, 1, lin_momentum());
  first.train({.output = folder.path()}, {make_hook("checkpoint")});
  const auto before = contents(folder.path());
  CHECK_THROWS_WITH(second.train({.output = folder.path()}, {make_hook("checkpoint")}),
                    Contains("already holds a run") && Contains("--resume"));
  CHECK(contents(folder.path()) == before);
}

TEST_CASE("periods: whole epochs end with the data, rows and updates count over the run") {
  const auto saves = [](const std::string& every) {
    const TestFolder folder;
    LinRun run(1, 4, lin_momentum(), 10, 4);  // 3 updates an epoch: 4, 4 and 2 rows
    run.train({.output = folder.path()}, {make_hook("checkpoint", "keep = 100\nevery = " + every)});
    return list_checkpoints(folder.path());
  };
  CHECK(saves("\"1e\"") == std::vector<std::int64_t>{3, 6, 9, 12});
  CHECK(saves("\"2e\"") == std::vector<std::int64_t>{6, 12});
  CHECK(saves("5") == std::vector<std::int64_t>{5, 10, 12});
  CHECK(saves("\"20rows\"") == std::vector<std::int64_t>{6, 12});
}

TEST_CASE("B59 6400 rows/s without the first update, 3200 a tower; 100 rows are 100") {
  double now = 0;
  Throughput result;
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  Loader loader(context, lin_data(6400), {.batch = 64, .shuffle = false});
  TowerGroupBase group(context, sgd({.lr = 1e-9}), lin());
  std::string text;
  TrainerOptions options;
  options.now = [&] { return now; };
  options.out = [&](std::string_view part) { text += part; };
  Trainer trainer(
      group, loader,
      [&now](Module& m, const Batch& b, Step& s) {
        if (s.tower == 0) now += s.update == 1 ? 5 : 0.01;
        return lin_loss(m, b, s);
      },
      options);
  trainer.add(make_hook("progress"));
  result = trainer.run().throughput;
  CHECK(result.left_out() == 1);
  CHECK(result.rate().samples_per_second() == Approx(6400).epsilon(1e-9));
  CHECK_THAT(text, Contains("6400 samples/s in total, 3200 per tower, without the first 1"));
  LinRun uneven(2, 1, sgd({.lr = 1e-9}), 100, 64);
  CHECK(uneven.train({}, {}).throughput.all().rows == 100);
}

TEST_CASE(
    "injected delays show: 20 ms in the loader are data wait, 20 ms in the exchange are exposed") {
  const auto times = [](double loader_delay, double exchange_delay) {
    Context context({.towers = "cpu:2", .threads_per_tower = 1});
    Loader loader(context, lin_data(80),
                  {.batch = 8, .shuffle = false, .prefetch = 0, .delay_seconds = loader_delay});
    TowerGroupBase group(context, sgd({.lr = 1e-6}), lin(), {.exchange_delay = exchange_delay});
    return Trainer(group, loader, lin_loss).run().throughput.rate();
  };
  const auto near = [](double share, const TrainTimes& t) {
    const double expected = 0.02 * static_cast<double>(t.updates) / t.seconds;
    return std::abs(share - expected) <= 0.1 * expected;
  };
  // A busy machine may stretch any one run, so some of several must agree.
  bool waiting = false, exchanging = false, both = false;
  for (int i = 0; i < 20 && !(waiting && exchanging && both); ++i) {
    const TrainTimes wait = times(0.02, 0), exchange = times(0, 0.02), sum = times(0.02, 0.02);
    waiting = waiting || (near(wait.data_wait_share(), wait) && wait.exposed_share() < 0.1);
    exchanging = exchanging ||
                 (near(exchange.exposed_share(), exchange) && exchange.data_wait_share() < 0.1);
    both = both || (near(sum.data_wait_share(), sum) && near(sum.exposed_share(), sum));
  }
  CHECK(waiting);
  CHECK(exchanging);
  CHECK(both);
}
