// SPDX-License-Identifier: MIT
#include <limits>

#include "belfry/core/error.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

ContextOptions cpu(int n, Executor e = Executor::in_place) {
  return {.towers = "cpu:" + std::to_string(n), .seed = 3, .threads_per_tower = 1, .executor = e};
}

Optimizer full() {
  return momentum({.lr = 0.2, .momentum = 0.9}).clip_global_norm(0.7).decay(1e-3).with_l2(1e-3);
}

// Hash after `updates` steps of 30 rows (the last one 7).
std::string train(const ContextOptions& options, const Optimizer& optimizer,
                  GroupOptions group = {}, int updates = 6) {
  Context context(options);
  TowerGroupBase towers(context, optimizer, mlp(0.2), std::move(group));
  for (int u = 0; u < updates; ++u)
    towers.step(batch_of(context, u + 1 == updates ? 7 : 30, static_cast<std::uint64_t>(u)),
                classify);
  return towers.parameter_hash();
}

}  // namespace

TEST_CASE("a step lowers the loss and reports what it did") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum({.lr = 0.3}), mlp());
  const Batch batch = batch_of(context, 40);
  Report r = towers.step(batch, classify);
  const double first = r.loss();
  CHECK(r.update == 1);
  CHECK(r.rows == 40);
  CHECK(r.weight == 40);
  CHECK(r.units == 2);
  CHECK(first == Approx(std::log(10.0)).epsilon(0.2));
  for (int i = 0; i < 30; ++i) r = towers.step(batch, classify);
  CHECK(r.loss() < 0.3 * first);
  CHECK(r.update == 31);
}

TEST_CASE(
    "repeatable: the same bits run after run, on the lazy executor and with replicated variables") {
  for (const int n : {1, 2, 3, 4, 5, 8}) {
    const std::string want = train(cpu(n), full());
    CHECK(train(cpu(n), full()) == want);
    CHECK(train(cpu(n, Executor::lazy), full()) == want);
    CHECK(train(cpu(n), full(), {.variables = Variables::replicated}) == want);
    CHECK(train(cpu(n, Executor::lazy), full(), {.variables = Variables::replicated}) == want);
    CHECK(train(cpu(n), full(), {.first_bucket_bytes = 1, .bucket_bytes = 1}) == want);
    CHECK(train(cpu(n), full(),
                {.variables = Variables::replicated, .first_bucket_bytes = 1, .bucket_bytes = 1}) ==
          want);
  }
}

TEST_CASE(
    "the one-pass update without guard, clip and statistics gives the bits of the two-pass one") {
  Optimizer plain = adam({.lr = 1e-2});
  Optimizer fused = plain;
  fused.guard = false;
  for (const int n : {1, 2, 3}) {
    CHECK(train(cpu(n), fused) == train(cpu(n), plain));
    CHECK(train(cpu(n, Executor::lazy), fused) == train(cpu(n), plain));
    Context c1(cpu(n)), c2(cpu(n));
    TowerGroupBase one(c1, fused, mlp()), two(c2, plain, mlp());
    one.step(batch_of(c1, 30), classify);
    two.step(batch_of(c2, 30), classify);
    CHECK(distance(one.averaged(batch_of(c1, 30), classify),
                   two.averaged(batch_of(c2, 30), classify)) == 0);
  }
}

TEST_CASE("statistics, squares and accumulation: every layout of one number of units agrees") {
  for (const Statistics s : {Statistics::norms, Statistics::squares})
    for (const std::int64_t k : {1, 3}) {
      const Optimizer o =
          adam({.lr = 1e-2, .second_moment = "towers"}).with_statistics(s).accumulating(k);
      const std::string want = train(cpu(2), o);
      CHECK(train(cpu(2, Executor::lazy), o) == want);
      CHECK(train(cpu(2), o, {.variables = Variables::replicated}) == want);
      CHECK(train(cpu(2, Executor::lazy), o, {.variables = Variables::replicated}) == want);
    }
}

TEST_CASE("statistics: T and L are those of the units' gradients") {
  Context context(cpu(4));
  TowerGroupBase towers(context, momentum().with_statistics(Statistics::squares), mlp());
  const Batch batch = batch_of(context, 37);  // 10, 9, 9, 9
  const TowerGradients g = towers.gradients(batch, classify);
  const AveragedGradients a =
      average_gradients(g.towers, {.include_square = true, .weights = g.weights});
  CHECK(g.weights == std::vector<double>{10, 9, 9, 9});
  double t = 0, l = 0;
  for (const auto& p : a.mean)
    for (const double v : p.gradient.to_vector()) t += v * v;
  for (const auto& p : a.square)
    for (const double v : p.gradient.to_vector()) l += v;
  const Report r = towers.step(batch, classify);
  const auto squares = towers.squares();
  for (std::size_t v = 0; v < squares.size(); ++v) {
    const auto want = a.square[v].gradient.to_vector();
    REQUIRE(squares[v].variable == a.square[v].variable);
    for (std::size_t i = 0; i < want.size(); ++i)
      REQUIRE(squares[v].values[i] == Approx(want[i]).epsilon(1e-5).margin(1e-12));
  }
  CHECK(r.mean_norm2 == Approx(t).epsilon(1e-5));
  CHECK(r.unit_norm2 == Approx(l).epsilon(1e-5));
  CHECK(r.norm == Approx(std::sqrt(t)).epsilon(1e-5));
}

TEST_CASE("the public stages give the update of step()") {
  Context c1(cpu(3)), c2(cpu(3));
  const auto optimizer = [] { return adam({.lr = 1e-2, .second_moment = "towers"}); };
  TowerGroupBase whole(c1, optimizer(), mlp()), staged(c2, optimizer(), mlp());
  for (std::uint64_t u = 0; u < 3; ++u) {
    whole.step(batch_of(c1, 20, u), classify);
    const TowerGradients g = staged.gradients(batch_of(c2, 20, u), classify);
    staged.apply(average_gradients(g.towers, {.include_square = true, .weights = g.weights}));
  }
  CHECK(distance(staged.arrays(), whole.arrays()) < 1e-5);
  CHECK(staged.clocks().update == 3);
}

TEST_CASE("guard: a non-finite gradient on one tower refuses the update everywhere", "[given]") {
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Context context(cpu(4));
      TowerGroupBase towers(context, momentum({.lr = 0.1}).accumulating(2), mlp(),
                            {.variables = v});
      for (int u = 0; u < 2; ++u) towers.step(batch_of(context, 40), classify);
      const std::string before = towers.parameter_hash();
      const auto arrays = towers.arrays();
      const auto poison = [bad](Module& m, const Batch& b, Step& s) {
        return classify(m, s.tower == 2 ? with_value(b, 3, bad) : b, s);
      };
      CHECK_THROWS_WITH(towers.step(batch_of(context, 40), poison),
                        Contains("tower 2") && Contains("hidden.weight") && Contains("update 3"));
      CHECK_THROWS_AS(towers.step(batch_of(context, 40), poison), NumericError);
      CHECK(towers.parameter_hash() == before);
      CHECK(distance(towers.arrays(), arrays) == 0);
      CHECK(towers.clocks().update == 2);
      towers.step(batch_of(context, 40), classify);  // the group goes on
      CHECK(towers.clocks().update == 3);
    }
}

TEST_CASE("an exception on one tower comes out of step() with its class, tower and update") {
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (const bool late : {false, true}) {
      Context context(cpu(4));
      TowerGroupBase towers(context, momentum(), mlp(), {.variables = v});
      const std::string before = towers.parameter_hash();
      const auto throwing = [late](Module& m, const Batch& b, Step& s) {
        Loss loss = classify(m, b, s);
        if (s.tower == 1 && !late) throw DataError("row is broken");
        if (s.tower == 3 && !late) throw std::runtime_error("later");
        if (s.tower == 2 && late) {  // in backward: an op that gives nothing back
          Tensor out = loss.mean.detach();
          loss.mean = recorded(
              "broken", out, [](Backward&) { throw std::runtime_error("backward broke"); },
              loss.mean);
        }
        return loss;
      };
      if (late) {
        CHECK_THROWS_AS(towers.step(batch_of(context, 16), throwing), TowerError);
        CHECK_THROWS_WITH(towers.step(batch_of(context, 16), throwing),
                          Contains("backward broke") && Contains("tower 2"));
      } else {
        CHECK_THROWS_AS(towers.step(batch_of(context, 16), throwing), DataError);
        CHECK_THROWS_WITH(towers.step(batch_of(context, 16), throwing),
                          Contains("row is broken") && Contains("tower 1") && Contains("update 1"));
      }
      CHECK(towers.parameter_hash() == before);
      CHECK(towers.step(batch_of(context, 16), classify).update >= 1);
    }
}

TEST_CASE("no tensor memory comes from the system in a warmed-up step") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum().clip_global_norm(1), mlp(0.1));
  for (int u = 0; u < 3; ++u) towers.step(batch_of(context, 30), classify);
  const std::size_t a = towers.memory(0).system_requests, b = towers.memory(1).system_requests;
  for (int u = 0; u < 10; ++u) towers.step(batch_of(context, 30), classify);
  CHECK(towers.memory(0).system_requests == a);
  CHECK(towers.memory(1).system_requests == b);
}

TEST_CASE("evaluate changes nothing and weighs by rows") {
  Context context(cpu(3));
  TowerGroupBase towers(context, momentum({.lr = 0.3}).with_ema(0.9), mlp(0.5));
  for (int u = 0; u < 5; ++u) towers.step(batch_of(context, 40), classify);
  const std::string before = towers.parameter_hash();
  const auto eval = [&](int batch, bool ema) {
    Loader loader(context, blobs(50), {.batch = batch, .shuffle = false});
    return towers.evaluate(loader, classify, ema);
  };
  const EvalReport whole = eval(50, false), pieces = eval(7, false), ema = eval(50, true);
  CHECK(whole.rows == 50);
  CHECK(whole.loss == Approx(pieces.loss).epsilon(1e-6));
  CHECK(ema.loss != whole.loss);
  CHECK(towers.parameter_hash() == before);
  CHECK(eval(50, false).loss == whole.loss);
}

TEST_CASE("F52 log_placement lists every op of the first update with its devices, once",
          "[given]") {
  std::string text;
  Context context(
      {.towers = "cpu:2", .threads_per_tower = 1, .log = Log([&](LogLevel, std::string_view line) {
                                                    text += std::string(line) + "\n";
                                                  })});
  TowerGroupBase towers(context, momentum(), mlp(), {.log_placement = true});
  towers.step(batch_of(context, 8), classify);
  const auto placed = [&](int tower, const std::string& op) {
    const std::string device = name_of(context.device(tower).id());
    return "placement, tower " + std::to_string(tower) + ": " + op + " on " + device +
           ", gradient on " + device;
  };
  CHECK_THAT(text, Contains(placed(0, "linear")));
  CHECK_THAT(text, Contains(placed(1, "cross_entropy") + ", 4 bytes"));
  text.clear();
  towers.step(batch_of(context, 8), classify);
  CHECK(text.empty());
}

TEST_CASE("an error in evaluation or in gradients() leaves the group usable") {
  Context context(cpu(2));
  TowerGroupBase towers(context, momentum(), mlp());
  const auto throwing = [](Module& m, const Batch& b, Step& s) {
    if (s.tower == 1) throw std::runtime_error("bad row");
    return classify(m, b, s);
  };
  Loader loader(context, blobs(8), {.batch = 8});
  CHECK_THROWS_WITH(towers.evaluate(loader, throwing), Contains("bad row") && Contains("tower 1"));
  CHECK_THROWS_AS(towers.gradients(batch_of(context, 8), throwing), TowerError);
  CHECK(towers.step(batch_of(context, 8), classify).update == 1);
}
