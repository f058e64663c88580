// SPDX-License-Identifier: MIT
// Dropout of attention's probabilities beside the registry's references: what it is on average,
// where it acts, and what its mask depends on.
#include <algorithm>
#include <cmath>

#include "belfry/autodiff/nn/attention.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/autodiff/ops/sequence/attention.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;

constexpr std::int64_t kRows = 3, kPositions = 21, kHeads = 2, kWidth = 4,
                       kColumns = kHeads * kWidth;
constexpr std::uint64_t kPath = 77;

struct Passed {
  Values out, gradient;
  bool operator==(const Passed&) const = default;
};

struct Fixture {
  std::unique_ptr<Device> device = make_cpu_device(0, 1, Executor::in_place);
  Values x = sample_values(kRows * kPositions * 3 * kColumns, 2.0);

  // Rows [first, first + rows) of x, and the gradient of the sum of the output.
  Passed pass(Scope::Options o, double p, std::int64_t first = 0, std::int64_t rows = kRows,
              DType type = DType::f32) const {
    Tape tape;
    o.tape = &tape, o.first_row = first, o.rows = rows;
    const Scope scope(o);
    const auto row = x.begin();
    constexpr std::int64_t n = kPositions * 3 * kColumns;
    const Tensor qkv = tape.leaf(Tensor::from(Values(row + first * n, row + (first + rows) * n),
                                              {rows, kPositions, 3 * kColumns}, type, *device));
    const Tensor y = attention(qkv, kHeads, true, {p, kPath});
    tape.backward(sum(y));
    return {y.to_vector(), tape.grad(qkv).to_vector()};
  }
  Passed train(std::int64_t update, double p, std::int64_t first = 0, std::int64_t rows = kRows,
               DType type = DType::f32) const {
    return pass({.training = true, .seed = 7, .update = update}, p, first, rows, type);
  }
};

void append(Values& to, const Values& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

TEST_CASE_METHOD(Fixture, "attention with dropout is attention without on average, also backward") {
  constexpr double kShare = 0.3;
  constexpr int kDraws = 600;
  const Passed want = pass({}, 0);
  Values whole = want.out;
  append(whole, want.gradient);
  Values mean(whole.size()), square(whole.size());
  for (int u = 1; u <= kDraws; ++u) {
    const Passed got = train(u, kShare, 0, kRows, DType::f64);
    Values all = got.out;
    append(all, got.gradient);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double d = all[i] - whole[i];
      mean[i] += d / kDraws, square[i] += d * d / kDraws;
    }
  }
  double worst = 0, noise = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double deviation = std::sqrt((square[i] - mean[i] * mean[i]) / kDraws);
    noise += deviation / static_cast<double>(mean.size());
    worst = std::max(worst, std::fabs(mean[i]) / (deviation + 1e-6));
  }
  INFO("off by at most " << worst << " deviations of " << noise << " on average");
  CHECK(worst < 5);  // of 2,016 values
  CHECK(noise > 0.003);
}

TEST_CASE_METHOD(Fixture, "a query that sees itself alone is dropped or kept whole") {
  constexpr double kShare = 0.25;
  int kept = 0, all = 0;
  for (int u = 1; u <= 400; ++u) {
    const Values out = train(u, kShare).out;
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < kColumns; c += kWidth) {
        const auto at = static_cast<std::size_t>(r * kPositions * kColumns + c);
        const auto v =
            x[static_cast<std::size_t>(r * kPositions * 3 * kColumns + 2 * kColumns + c)];
        ++all;
        if (out[at] == 0) continue;
        ++kept;
        REQUIRE(out[at] == Approx(v / (1 - kShare)).epsilon(1e-5));
      }
  }
  CHECK(static_cast<double>(kept) / all == Approx(1 - kShare).margin(0.04));  // 4.5 deviations
}

TEST_CASE_METHOD(Fixture, "dropout of attention acts only in training, and 0 changes no bit") {
  const Passed plain = pass({}, 0);
  CHECK(train(1, 0) == plain);
  CHECK(pass({.training = false, .seed = 7, .update = 1}, 0.3) == plain);
  CHECK(train(1, 0.3) != plain);
  for (const double p : {1.0, -0.1, std::nan("")}) CHECK_THROWS_AS(train(1, p), ConfigError);
  Module root;
  CHECK_THROWS_WITH(Attention(root, "a", 8, 2, {.dropout = 1}), Contains("'a'"));
}

TEST_CASE_METHOD(Fixture, "attention's mask depends on seed, update, path, use and global row") {
  const Passed whole = train(3, 0.4);
  Passed parts = train(3, 0.4, 0, 1);
  const Passed rest = train(3, 0.4, 1, 2);
  append(parts.out, rest.out), append(parts.gradient, rest.gradient);
  CHECK(parts == whole);
  CHECK(train(3, 0.4) == whole);
  CHECK(train(4, 0.4) != whole);
  CHECK(pass({.training = true, .seed = 8, .update = 3}, 0.4) != whole);

  const Tensor ones = Tensor::from(Values(kPositions * 3 * kColumns, 1.0),
                                   {1, kPositions, 3 * kColumns}, DType::f32, *device);
  const Scope scope({.training = true, .seed = 7, .update = 3});
  const auto out = [&](std::uint64_t path) {
    return attention(ones, kHeads, true, {0.4, path}).to_vector();
  };
  const Values first = out(1);
  CHECK(out(1) != first);
  CHECK(out(2) != first);
  // No two heads and no two queries have the same mask.
  const auto value = [&](std::int64_t query, std::int64_t head) {
    return first[static_cast<std::size_t>(query * kColumns + head * kWidth)];
  };
  int equal = 0;
  for (std::int64_t i = 10; i < kPositions; ++i) equal += value(i, 0) == value(i, 1) ? 1 : 0;
  CHECK(equal < 8);
}

TEST_CASE_METHOD(Fixture, "f64, and rows with a NaN, have the same mask") {
  const Passed single = train(3, 0.4), twice = train(3, 0.4, 0, kRows, DType::f64);
  for (std::size_t i = 0; i < single.out.size(); ++i)
    REQUIRE(single.out[i] == Approx(twice.out[i]).margin(2e-6));
  for (std::size_t i = 0; i < single.gradient.size(); ++i)
    REQUIRE(single.gradient[i] == Approx(twice.gradient[i]).margin(1e-5));
  constexpr std::int64_t kBad = 17;  // what goes the slower way
  for (std::int64_t r = 0; r < kRows; ++r)
    x[static_cast<std::size_t>((r * kPositions + kBad) * 3 * kColumns)] = std::nan("");
  const Passed slow = train(3, 0.4);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t i = 0; i < kBad * kColumns; ++i) {
      const auto at = static_cast<std::size_t>(r * kPositions * kColumns + i);
      REQUIRE(slow.out[at] == Approx(single.out[at]).margin(2e-6));
    }
  for (std::int64_t i = 0; i < kBad * 3 * kColumns; ++i)  // of q, before it
    if (i % (3 * kColumns) < kColumns)
      REQUIRE(slow.gradient[static_cast<std::size_t>(i)] ==
              Approx(single.gradient[static_cast<std::size_t>(i)]).margin(1e-5));
}
