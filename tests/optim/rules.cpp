// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/optim/optimizer.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/optim/rule_fixture.h"

namespace belfry {
namespace {

using test::normals;
using test::RuleRun;
using test::same_bits;
using test::squares_of;

// Ten updates of 33 elements beside `formula(p, g, s0, s1, t)` in double, elements and all.
template <class F>
double ten_updates(const Optimizer& optimizer, double lr, F formula) {
  RuleRun run(*optimizer.rule, normals(33, 0));
  std::vector<double> p(run.param.begin(), run.param.end()), s0(33), s1(33);
  for (int t = 1; t <= 10; ++t) {
    const std::vector<float> grad = normals(33, static_cast<std::uint32_t>(t));
    run.update(grad, {.lr = static_cast<float>(lr), .step = static_cast<float>(t)});
    for (std::size_t i = 0; i < 33; ++i)
      formula(p[i], static_cast<double>(grad[i]), s0[i], s1[i], t);
  }
  return test::distance(run.param, p);
}

}  // namespace

TEST_CASE("ten updates follow the published formulas to 1e-6", "[optim]") {
  const double lr = 0.0078125;  // the same in f32 and f64
  CHECK(ten_updates(sgd(), lr, [&](double& p, double g, double&, double&, int) { p -= lr * g; }) <
        1e-6);
  const MomentumOptions m{.momentum = 0.9};
  CHECK(ten_updates(momentum(m), lr, [&](double& p, double g, double& v, double&, int) {
          v = 0.9 * v + g;
          p -= lr * v;
        }) < 1e-6);
  CHECK(ten_updates(nesterov(m), lr, [&](double& p, double g, double& v, double&, int) {
          v = 0.9 * v + g;
          p -= lr * (g + 0.9 * v);
        }) < 1e-6);
  const auto adam_formula = [&](double& p, double g, double& mean, double& v, int t) {
    mean = 0.9 * mean + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double mhat = mean / (1 - std::pow(0.9, t)), vhat = v / (1 - std::pow(0.999, t));
    p -= lr * mhat / (std::sqrt(vhat) + 1e-8);
  };
  CHECK(ten_updates(adam(), lr, adam_formula) < 1e-6);
  CHECK(ten_updates(adamw(), lr, adam_formula) < 1e-6);  // decay is the engine's scalar, 0 here
  CHECK(ten_updates(rmsprop(), lr, [&](double& p, double g, double& v, double&, int) {
          v = 0.99 * v + 0.01 * g * g;
          p -= lr * g / (std::sqrt(v) + 1e-8);
        }) < 1e-6);
  const RmspropOptions r{.momentum = 0.5};
  CHECK(ten_updates(rmsprop(r), lr, [&](double& p, double g, double& v, double& u, int) {
          v = 0.99 * v + 0.01 * g * g;
          u = 0.5 * u + g / (std::sqrt(v) + 1e-8);
          p -= lr * u;
        }) < 1e-6);
}

TEST_CASE("B58: a new rate acts on the whole velocity", "[optim][scenario]") {
  const Optimizer o = momentum({.momentum = 0.9});
  RuleRun up(*o.rule, {0.0f});
  up.update({1.0f}, {.lr = 0.1f, .step = 1});
  CHECK(up.param[0] == Approx(-0.1).epsilon(1e-6));
  up.update({1.0f}, {.lr = 1.0f, .step = 2});
  CHECK(up.param[0] == Approx(-2.0).epsilon(1e-6));
  RuleRun down(*o.rule, {0.0f});
  down.update({1.0f}, {.lr = 1.0f, .step = 1});
  down.update({1.0f}, {.lr = 0.1f, .step = 2});
  CHECK(down.param[0] == Approx(-1.19).epsilon(1e-6));
  const Optimizer n = nesterov({.momentum = 0.9});
  RuleRun look(*n.rule, {0.0f});
  look.update({1.0f}, {.lr = 0.1f, .step = 1});
  CHECK(look.param[0] == Approx(-0.19).epsilon(1e-6));
  look.update({1.0f}, {.lr = 1.0f, .step = 2});
  CHECK(look.param[0] == Approx(-0.19 - 2.71).epsilon(1e-6));
}

TEST_CASE("the first adam update is lr, whatever the gradient's scale", "[optim]") {
  const Optimizer o = adam();
  RuleRun run(*o.rule, {0.0f, 0.0f, 0.0f});
  run.update({1e-4f, -3.0f, 1e4f}, {.lr = 0.001f, .step = 1});
  CHECK(run.param[0] == Approx(-0.001).epsilon(2e-4));  // eps is 1e-4 of the root
  CHECK(run.param[1] == Approx(0.001).epsilon(1e-6));
  CHECK(run.param[2] == Approx(-0.001).epsilon(1e-6));
}

TEST_CASE("adam on one unit's squares is adam, bit for bit", "[optim]") {
  const Optimizer mean = adam(), towers = adam({.second_moment = "towers"});
  CHECK_FALSE(mean.needs_squares());
  CHECK(towers.needs_squares());
  RuleRun a(*mean.rule, normals(1003, 0)), b(*towers.rule, normals(1003, 0));
  for (int t = 1; t <= 30; ++t) {
    std::vector<float> grad = normals(1003, static_cast<std::uint32_t>(t));
    grad[0] = 1e-25f;  // its square is 0 in f32
    grad[1] = 1e25f;   // and this one's is infinite
    const float clip = t % 3 == 0 ? 0.3f : t % 7 == 0 ? 1e-24f : 1.0f;
    const UpdateScalars s{.lr = 0.01f, .decay = 0.1f, .clip = clip, .step = static_cast<float>(t)};
    a.update(grad, s);
    b.update(grad, s, squares_of(grad));
    REQUIRE(same_bits(a.param, b.param));
    REQUIRE(same_bits(a.state[0], b.state[0]));
    REQUIRE(same_bits(a.state[1], b.state[1]));
  }
  // With noise between the towers the squares exceed the square of the mean: smaller steps.
  RuleRun c(*towers.rule, {0.0f});
  c.update({1.0f}, {.lr = 0.1f, .step = 1}, {4.0f});
  CHECK(c.param[0] == Approx(-0.05).epsilon(1e-6));
  CHECK_THROWS_AS(c.update({1.0f}, {.lr = 0.1f, .step = 2}), GradientError);
}

TEST_CASE("adam: an exploded gradient that was clipped gives a finite step", "[optim]") {
  const Optimizer o = adam();
  RuleRun run(*o.rule, {0.0f});
  run.update({1e30f}, {.lr = 0.1f, .clip = 1e-30f, .step = 1});
  CHECK(run.param[0] == Approx(-0.1).epsilon(1e-6));
}

TEST_CASE("decay comes first and uses the rate", "[optim]") {
  for (const Optimizer& o : {sgd(), momentum(), nesterov(), adam(), adamw(), rmsprop()}) {
    INFO(o.rule->name());
    RuleRun plain(*o.rule, {0.0f}), decayed(*o.rule, {2.0f});
    plain.update({1.0f}, {.lr = 0.1f, .decay = 0.5f});
    decayed.update({1.0f}, {.lr = 0.1f, .decay = 0.5f});
    CHECK(decayed.param[0] - plain.param[0] == Approx(1.9).epsilon(1e-6));
  }
}

TEST_CASE("the clip factor scales the gradient", "[optim]") {
  for (const Optimizer& o : {sgd(), momentum(), nesterov(), rmsprop()}) {
    INFO(o.rule->name());
    RuleRun clipped(*o.rule, {0.0f}), scaled(*o.rule, {0.0f});
    clipped.update({8.0f}, {.lr = 0.1f, .clip = 0.25f});
    scaled.update({2.0f}, {.lr = 0.1f});
    CHECK(same_bits(clipped.param, scaled.param));
  }
}

}  // namespace belfry
