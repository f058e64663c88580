// SPDX-License-Identifier: MIT
#include "belfry/allreduce/average_gradients.h"

#include <bit>
#include <cmath>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;
using Values = std::vector<double>;

namespace {

struct Devices {
  explicit Devices(Executor e = Executor::in_place) {
    for (int i = 0; i < 8; ++i) all.push_back(make_cpu_device(i, 1, e));
  }
  GradientPair pair(int tower, const std::string& name, const Values& values,
                    DType type = DType::f32) {
    return {Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}, type,
                         *all[static_cast<std::size_t>(tower)]),
            name};
  }
  std::vector<std::unique_ptr<Device>> all;
};

GradientPair absent(const std::string& name) { return {Tensor(), name}; }

// One variable on several towers.
AveragedGradients average(Devices& d, const std::vector<Values>& towers,
                          const AverageOptions& o = {}, DType type = DType::f32) {
  std::vector<GradientList> lists;
  for (std::size_t t = 0; t < towers.size(); ++t)
    lists.push_back({d.pair(static_cast<int>(t), "w", towers[t], type)});
  return average_gradients(lists, o);
}

Values mean(const AveragedGradients& a, std::size_t i = 0) {
  return a.mean.at(i).gradient.to_vector();
}
Values square(const AveragedGradients& a) { return a.square.at(0).gradient.to_vector(); }

}  // namespace

TEST_CASE("B01 weights give the mean over rows, none give the mean of means") {
  Devices d;
  const std::vector<Values> g{{-30}, {-174}, {-362}};
  CHECK(mean(average(d, g, {.weights = {4, 4, 2}}))[0] == Approx(-154).epsilon(1e-6));
  CHECK(mean(average(d, g))[0] == Approx(-188.66666667).epsilon(1e-6));
}

TEST_CASE("B04 absent on all towers is skipped; everything absent and no towers are errors") {
  Devices d;
  std::vector<GradientList> lists;
  for (int t = 0; t < 3; ++t) lists.push_back({d.pair(t, "fc/w", {t + 1.0}), absent("aux/w")});
  const AveragedGradients a = average_gradients(lists, {.include_square = true});
  REQUIRE(a.mean.size() == 1);
  CHECK(a.mean[0].variable == "fc/w");
  CHECK(mean(a) == Values{2});
  REQUIRE(a.square.size() == 1);
  CHECK(a.square[0].variable == "fc/w");
  CHECK(a.skipped == std::vector<std::string>{"aux/w"});
  CHECK_THROWS_WITH(average_gradients({{absent("a"), absent("b")}, {absent("a"), absent("b")}}),
                    Contains("no variable has a gradient") && Contains("a, b"));
  CHECK_THROWS_AS(average_gradients({}), GradientError);
}

TEST_CASE("B05 absent on some towers: all names and towers, or counted as 0") {
  Devices d;
  const auto lists = [&] {
    std::vector<GradientList> l;
    l.push_back({d.pair(0, "head/b", {0.5}), absent("head/c"), d.pair(0, "fc/w", {1})});
    l.push_back({absent("head/b"), d.pair(1, "head/c", {3}), d.pair(1, "fc/w", {2})});
    l.push_back({d.pair(2, "head/b", {1.5}), absent("head/c"), d.pair(2, "fc/w", {3})});
    return l;
  }();
  CHECK_THROWS_AS(average_gradients(lists), GradientError);
  CHECK_THROWS_WITH(average_gradients(lists),
                    Contains("head/b (missing on tower 1 of 3)") &&
                        Contains("head/c (missing on towers 0, 2 of 3)") && !Contains("fc/w"));
  const AveragedGradients zero = average_gradients(lists, {.none = MissingOnSome::zero});
  CHECK(mean(zero, 0)[0] == Approx(2.0 / 3));
  CHECK(mean(zero, 1) == Values{1});
  CHECK(mean(zero, 2) == Values{2});
}

TEST_CASE("B08 the mean of squares is not the square of the mean") {
  Devices d;
  const AverageOptions squares{.include_square = true};
  const AveragedGradients a = average(d, {{1, 2}, {3, -2}}, squares);
  CHECK(mean(a) == Values{2, 0});
  CHECK(square(a) == Values{5, 4});
  const AveragedGradients b = average(d, {{3}, {-3}}, squares);
  CHECK(mean(b) == Values{0});
  CHECK(square(b) == Values{9});
  const std::vector<Values> rows{{-30}, {-174}, {-362}};
  const AveragedGradients c = average(d, rows, {.include_square = true, .weights = {4, 4, 2}});
  CHECK(square(c)[0] == Approx(38679.2).epsilon(1e-6));
  CHECK(square(c)[0] - mean(c)[0] * mean(c)[0] == Approx(14963.2).epsilon(1e-5));
  CHECK(square(average(d, rows, squares))[0] == Approx(54073.33).epsilon(1e-6));
  CHECK(square(average(d, {{1}, {3}, {5}, {7}}, squares)) == Values{21});
  CHECK(square(average(d, {{4.5}}, squares)) == Values{20.25});
  CHECK(square(average(d, {{2.5}, {6.5}}, squares)) == Values{24.25});
  CHECK(square(average(d, {{1.5}, {3.5}, {5.5}, {7.5}}, squares)) == Values{25.25});
  CHECK(square(average(d, {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}}, squares)) == Values{25.5});
  CHECK(average(d, rows).square.empty());
}

TEST_CASE("B28 pairs go by name; unequal lists, shapes and types are named") {
  Devices d;
  const AveragedGradients a = average_gradients(
      {{d.pair(0, "a", {1}), d.pair(0, "b", {10})}, {d.pair(1, "b", {30}), d.pair(1, "a", {3})}});
  CHECK(a.mean[0].variable == "a");
  CHECK(mean(a, 0) == Values{2});
  CHECK(mean(a, 1) == Values{20});
  CHECK_THROWS_WITH(
      average_gradients({{d.pair(0, "a", {1})}, {d.pair(1, "a", {1}), d.pair(1, "x", {1})}}),
      Contains("'x' is on tower 1 and not on tower 0"));
  CHECK_THROWS_WITH(
      average_gradients({{d.pair(0, "a", {1}), d.pair(0, "x", {1})}, {d.pair(1, "a", {1})}}),
      Contains("'x' is on tower 0 and not on tower 1"));
  CHECK_THROWS_WITH(average_gradients({{d.pair(0, "a", {1, 2})}, {d.pair(1, "a", {1, 2, 3})}}),
                    Contains("'a'") && Contains("[2] on tower 0") && Contains("[3] on tower 1"));
  CHECK_THROWS_WITH(average_gradients({{d.pair(0, "a", {1})}, {d.pair(1, "a", {1}, DType::f64)}}),
                    Contains("f32 and f64"));
  CHECK_THROWS_WITH(
      average_gradients({{d.pair(0, "a", {1}, DType::i32)}, {d.pair(1, "a", {1}, DType::i32)}}),
      Contains("i32") && Contains("floating"));
}

TEST_CASE("B50 half precision is added in single") {
  Devices d;
  const double smallest = std::ldexp(1.0, -24);
  const auto four = [&](double v) { return std::vector<Values>(4, Values{v}); };
  CHECK(mean(average(d, four(30000), {}, DType::f16)) == Values{30000});
  CHECK(mean(average(d, four(smallest), {}, DType::f16)) == Values{smallest});
  const AveragedGradients c = average(d, four(300), {.include_square = true}, DType::f16);
  CHECK(mean(c) == Values{300});
  CHECK(square(c) == Values{90000});
  CHECK(c.square[0].gradient.dtype() == DType::f32);
  CHECK(mean(average(d, {{60000}, {60000}, {-60000}, {-60000}}, {}, DType::f16)) == Values{0});
  // F14: 1e-4 in f16 squares to 1e-8 and not to 0
  CHECK(square(average(d, four(1e-4), {.include_square = true}, DType::f16))[0] ==
        Approx(1e-8).epsilon(0.01));
  CHECK(mean(average(d, four(3.5), {}, DType::bf16)) == Values{3.5});
}

TEST_CASE("B62 a variable twice in one list is an error") {
  Devices d;
  CHECK_THROWS_WITH(average_gradients({{d.pair(0, "E", {2}), d.pair(0, "E", {3})}}),
                    Contains("'E' twice"));
}

TEST_CASE("B65 every variable keeps its own type, shape and mean") {
  Devices d;
  const std::vector<std::pair<DType, std::size_t>> kinds{{DType::f16, 128}, {DType::f32, 128},
                                                         {DType::f16, 1},   {DType::f32, 0},
                                                         {DType::f64, 3},   {DType::f32, 7}};
  std::vector<GradientList> lists(2);
  for (int t = 0; t < 2; ++t)
    for (std::size_t k = 0; k < kinds.size(); ++k)
      lists[static_cast<std::size_t>(t)].push_back(
          d.pair(t, "v" + std::to_string(k), Values(kinds[k].second, (t == 0 ? 1.0 : 3.0) / 64),
                 kinds[k].first));
  const AveragedGradients a = average_gradients(lists);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    CHECK(a.mean[k].gradient.dtype() == kinds[k].first);
    CHECK(mean(a, k) == Values(kinds[k].second, 2.0 / 64));
  }
}

TEST_CASE("weights: normalised, checked; weight 0 is a tower without rows") {
  Devices d;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(mean(average(d, {{1}, {3}}, {.weights = {0.5, 1.5}})) == Values{2.5});
  CHECK(mean(average(d, {{nan}, {3}}, {.include_square = true, .weights = {0, 2}})) == Values{3});
  CHECK(mean(average_gradients({{absent("w")}, {d.pair(1, "w", {3})}}, {.weights = {0, 2}})) ==
        Values{3});
  CHECK_THROWS_AS(average(d, {{1}, {2}}, {.weights = {0, 0}}), NumericError);
  CHECK_THROWS_AS(average(d, {{1}, {2}}, {.weights = {1}}), GradientError);
  CHECK_THROWS_AS(average(d, {{1}, {2}}, {.weights = {1, -1}}), GradientError);
  CHECK_THROWS_AS(average(d, {{1}, {2}}, {.weights = {1, nan}}), GradientError);
}

TEST_CASE("F06 within N 2^-23 of f64; one tower is the identity bit for bit; the tree is fixed") {
  const Philox philox = philox_key(1, Purpose::test);
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded}) {
    Devices d(e);
    for (std::size_t n = 1; n <= 8; ++n) {
      std::vector<Values> g(n, Values(1000));
      for (std::size_t t = 0; t < n; ++t)
        for (std::size_t i = 0; i < 1000; ++i)
          g[t][i] = static_cast<double>(
              unit_float(
                  philox(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(t), 0, 0).v[0]) -
              0.5f);
      const Values m = mean(average(d, g));
      for (std::size_t i = 0; i < 1000; ++i) {
        double exact = 0, size = 0;
        std::vector<float> level;
        for (std::size_t t = 0; t < n; ++t) {
          exact += g[t][i] / static_cast<double>(n);
          size += std::abs(g[t][i]) / static_cast<double>(n);
          level.push_back(static_cast<float>(g[t][i]));
        }
        while (level.size() > 1) {  // pairs (2i, 2i + 1), a missing partner passes through
          std::vector<float> next;
          for (std::size_t k = 0; k < level.size(); k += 2)
            next.push_back(k + 1 < level.size() ? level[k] + level[k + 1] : level[k]);
          level = next;
        }
        REQUIRE(std::abs(m[i] - exact) <= static_cast<double>(n) * 0x1p-23 * size);
        REQUIRE(static_cast<float>(m[i]) == level[0] / static_cast<float>(n));
      }
    }
  }
  Devices d;
  const Values odd{-0.0, 1e-45, 3.4e38, std::numeric_limits<double>::infinity()};
  const Values same = mean(average(d, {odd}, {.weights = {0.3}}));
  for (std::size_t i = 0; i < odd.size(); ++i)
    CHECK(std::bit_cast<std::uint32_t>(static_cast<float>(same[i])) ==
          std::bit_cast<std::uint32_t>(static_cast<float>(odd[i])));
}
