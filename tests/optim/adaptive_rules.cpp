// SPDX-License-Identifier: MIT
// adagrad, adadelta and lion beside their papers' formulas and numbers worked out by hand.
#include "belfry/core/error.h"
#include "belfry/optim/rules/adadelta.h"
#include "belfry/optim/rules/adagrad.h"
#include "belfry/optim/rules/lion.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/optim/rule_fixture.h"

namespace belfry {
namespace {

using test::normals;
using test::RuleRun;
using test::same_bits;

// One parameter, from 1, under three gradients.
std::vector<double> three(const Optimizer& o, float lr, float decay = 0) {
  RuleRun run(*o.rule, {1.0f});
  std::vector<double> out;
  int t = 0;
  for (const float g : {2.0f, -1.0f, 0.5f}) {
    run.update({g}, {.lr = lr, .decay = decay, .step = static_cast<float>(++t)});
    out.push_back(static_cast<double>(run.param[0]));
  }
  return out;
}

}  // namespace

TEST_CASE("adagrad: three updates by hand", "[optim]") {
  // Sums of squares 4, 5, 5.25: steps 0.1 x (1, -1/sqrt 5, 0.5/sqrt 5.25).
  const auto p = three(adagrad(), 0.1f);
  CHECK(p[0] == Approx(0.9).epsilon(1e-6));
  CHECK(p[1] == Approx(0.9 + 0.1 / std::sqrt(5.0)).epsilon(1e-6));
  CHECK(p[2] == Approx(0.9 + 0.1 / std::sqrt(5.0) - 0.05 / std::sqrt(5.25)).epsilon(1e-6));
  // From 5 the first root is 3; decay of 10 % comes first and is not adapted.
  CHECK(three(adagrad({.initial = 5}), 0.1f)[0] == Approx(1 - 0.2 / 3).epsilon(1e-6));
  CHECK(three(adagrad(), 0.1f, 1)[0] == Approx(0.9 - 0.1).epsilon(1e-6));
}

TEST_CASE("adagrad: the first update is lr whatever the gradient's scale", "[optim]") {
  RuleRun run(*adagrad().rule, {0.0f, 0.0f, 0.0f});
  run.update({1e-6f, -3.0f, 1e6f}, {.lr = 0.01f});
  CHECK(run.param[0] == Approx(-0.01).epsilon(2e-4));
  CHECK(run.param[1] == Approx(0.01).epsilon(1e-6));
  CHECK(run.param[2] == Approx(-0.01).epsilon(1e-6));
}

TEST_CASE("adadelta: three updates by hand", "[optim]") {
  // v: 0.4, 0.46, 0.439; d = g sqrt((u + eps) / (v + eps)), u <- 0.9 u + 0.1 d d, from 0.
  const double eps = 1e-6;
  double u = 0, p = 1;
  std::vector<double> want;
  const double g[3] = {2, -1, 0.5}, v[3] = {0.4, 0.46, 0.439};
  for (int i = 0; i < 3; ++i) {
    const double d = g[i] * std::sqrt(u + eps) / std::sqrt(v[i] + eps);
    u = 0.9 * u + 0.1 * d * d;
    p -= d;
    want.push_back(p);
  }
  CHECK(want[0] == Approx(1 - 3.162273707e-3).epsilon(1e-9));  // 2e-3 / sqrt(0.400001)
  const auto got = three(adadelta(), 1.0f);
  for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-6));
}

TEST_CASE("lion: three updates by hand", "[optim]") {
  // Means 0.02, 0.0098, 0.014702 after, ways 0.2, 0.9 x 0.02 - 0.1 < 0, 0.9 x 0.0098 + 0.05 > 0.
  const auto p = three(lion(), 0.1f);
  CHECK(p[0] == Approx(0.9).epsilon(1e-6));
  CHECK(p[1] == Approx(1.0).epsilon(1e-6));
  CHECK(p[2] == Approx(0.9).epsilon(1e-6));
  // A gradient against a larger mean does not turn the step, beta1 = 0.9 being its share.
  RuleRun held(*lion({.beta1 = 0.9, .beta2 = 0.5}).rule, {0.0f});
  held.update({1.0f}, {.lr = 0.25f});   // mean 0.5
  held.update({-4.0f}, {.lr = 0.25f});  // 0.45 - 0.4 > 0
  CHECK(held.param[0] == -0.5f);
  CHECK(held.state[0][0] == -1.75f);  // 0.25 - 2
  held.update({0.0f}, {.lr = 0.25f});
  CHECK(held.param[0] == -0.25f);
  CHECK(lion({.weight_decay = 0.3}).weight_decay == 0.3);
}

TEST_CASE("lion: NaN in the gradient is not turned into a step", "[optim]") {
  RuleRun run(*lion().rule, {1.0f});
  run.update({std::nanf("")}, {.lr = 0.1f});
  CHECK(std::isnan(run.param[0]));
}

TEST_CASE("adagrad, adadelta and lion follow their papers to 1e-6", "[optim]") {
  const auto ten = [](const Optimizer& o, double lr, auto formula) {
    RuleRun run(*o.rule, normals(33, 0));
    std::vector<double> p(run.param.begin(), run.param.end()), a(33), b(33);
    for (std::uint32_t t = 1; t <= 10; ++t) {
      const std::vector<float> grad = normals(33, t);
      run.update(grad, {.lr = static_cast<float>(lr), .step = static_cast<float>(t)});
      for (std::size_t i = 0; i < 33; ++i) formula(p[i], static_cast<double>(grad[i]), a[i], b[i]);
    }
    return test::distance(run.param, p);
  };
  const double lr = 0.0078125;  // the same in f32 and f64
  CHECK(ten(adagrad(), lr, [&](double& p, double g, double& s, double&) {
          s += g * g;
          p -= lr * g / (1e-10 + std::sqrt(s));
        }) < 1e-6);
  CHECK(ten(adadelta({.rho = 0.95}), 1, [&](double& p, double g, double& s, double& u) {
          s = 0.95 * s + 0.05 * g * g;
          const double d = std::sqrt(u + 1e-6) / std::sqrt(s + 1e-6) * g;
          u = 0.95 * u + 0.05 * d * d;
          p -= d;
        }) < 1e-6);
  CHECK(ten(lion(), lr, [&](double& p, double g, double& m, double&) {
          const double c = 0.9 * m + 0.1 * g;
          p -= lr * ((c > 0) - (c < 0));
          m = 0.99 * m + 0.01 * g;
        }) < 1e-6);
}

TEST_CASE("the clip factor scales these rules' gradient, decay uses the rate", "[optim]") {
  for (const Optimizer& o : {adagrad(), adadelta(), lion()}) {
    INFO(o.rule->name());
    RuleRun clipped(*o.rule, {0.0f}), scaled(*o.rule, {0.0f});
    clipped.update({8.0f}, {.lr = 0.1f, .clip = 0.25f});
    scaled.update({2.0f}, {.lr = 0.1f});
    CHECK(same_bits(clipped.param, scaled.param));
    CHECK(same_bits(clipped.state[0], scaled.state[0]));
    RuleRun plain(*o.rule, {0.0f}), decayed(*o.rule, {2.0f});
    plain.update({1.0f}, {.lr = 0.1f, .decay = 0.5f});
    decayed.update({1.0f}, {.lr = 0.1f, .decay = 0.5f});
    CHECK(decayed.param[0] - plain.param[0] == Approx(1.9).epsilon(1e-6));
  }
}

TEST_CASE("adagrad, adadelta and lion refuse what makes no sense", "[optim]") {
  CHECK_THROWS_AS(adagrad({.initial = -1}), ConfigError);
  CHECK_THROWS_AS(adagrad({.eps = 0}), ConfigError);
  CHECK_THROWS_AS(adadelta({.rho = 1}), ConfigError);
  CHECK_THROWS_AS(lion({.beta2 = std::nan("")}), ConfigError);
}

}  // namespace belfry
