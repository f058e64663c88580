// SPDX-License-Identifier: MIT
// What ops of sequences promise beside their references: NaN, memory, sums of gradients, errors.
#include <algorithm>
#include <cmath>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/norm/layer_norm.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/autodiff/ops/sequence/attention.h"
#include "belfry/autodiff/ops/sequence/embedding.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;

std::unique_ptr<Device> cpu() { return make_cpu_device(0, 1, Executor::in_place); }

struct Passed {
  Values out, gradient;
};

// attention of packed qkv [1, n, 3 c] with one head, and the gradient of the sum of its output.
Passed attend(const Values& qkv, std::int64_t n, std::int64_t c, DType type, bool causal = true) {
  const auto device = cpu();
  Tape tape;
  const Scope scope({.tape = &tape});
  const Tensor x = tape.leaf(Tensor::from(qkv, {1, n, 3 * c}, type, *device));
  const Tensor y = attention(x, 1, causal);
  tape.backward(sum(y));
  return {y.to_vector(), tape.grad(x).to_vector()};
}

std::size_t nans(const Values& v, std::size_t first, std::size_t end) {
  return static_cast<std::size_t>(std::count_if(v.begin() + static_cast<std::ptrdiff_t>(first),
                                                v.begin() + static_cast<std::ptrdiff_t>(end),
                                                [](double x) { return std::isnan(x); }));
}

}  // namespace

TEST_CASE("a NaN reaches what sees it in causal attention and nothing else") {
  constexpr std::size_t n = 21, c = 5, at = 11;  // within a block of queries
  const Values good = sample_values(n * 3 * c);
  for (const DType type : {DType::f32, DType::f64}) {
    const Passed want = attend(good, n, c, type);
    for (std::size_t part = 0; part < 3; ++part) {  // in q, k or v of one position
      INFO("part " << part << " " << name_of(type));
      Values bad = good;
      bad[at * 3 * c + part * c + 2] = std::nan("");
      const Passed got = attend(bad, n, c, type);
      for (std::size_t i = 0; i < at * c; ++i) REQUIRE(std::fabs(got.out[i] - want.out[i]) <= 1e-6);
      const std::size_t end = part == 0 ? at + 1 : n;  // a query is seen by itself alone
      CHECK(nans(got.out, at * c, n * c) >= end - at);
      if (part != 2) CHECK(nans(got.out, at * c, end * c) == (end - at) * c);
      for (std::size_t i = 0; i < at; ++i)  // queries before it
        CHECK(nans(got.gradient, i * 3 * c, i * 3 * c + c) == 0);
      CHECK(nans(got.gradient, 0, n * 3 * c) > 0);
    }
  }
}

TEST_CASE("without the mask a NaN in a key reaches every position") {
  constexpr std::size_t n = 9, c = 3;
  Values bad = sample_values(n * 3 * c);
  bad[4 * 3 * c + c] = std::nan("");
  CHECK(nans(attend(bad, n, c, DType::f32, false).out, 0, n * c) == n * c);
}

TEST_CASE("attention over 300 positions: f32 within 1e-5 of f64, forward and backward") {
  constexpr std::int64_t n = 300, c = 33;
  const Values x = sample_values(n * 3 * c, 2.0);
  for (const bool causal : {true, false}) {
    const Passed a = attend(x, n, c, DType::f32, causal), b = attend(x, n, c, DType::f64, causal);
    double worst = 0;
    for (std::size_t i = 0; i < a.out.size(); ++i)
      worst = std::max(worst, std::fabs(a.out[i] - b.out[i]));
    for (std::size_t i = 0; i < a.gradient.size(); ++i)
      worst = std::max(worst, std::fabs(a.gradient[i] - b.gradient[i]) /
                                  std::max(1.0, std::fabs(b.gradient[i])));
    INFO("largest error " << worst);
    CHECK(worst <= 1e-5);
  }
}

TEST_CASE("attention's memory grows with the number of positions, not with its square") {
  const auto peak = [](std::int64_t n) {
    const auto device = cpu();
    Tape tape;
    const Scope scope({.tape = &tape, .training = true});
    const Tensor x = tape.leaf(Tensor::zeros({1, n, 3 * 16}, DType::f32, *device));
    tape.backward(sum(attention(x, 1, true, {.p = 0.1})));
    return static_cast<double>(device->arena(MemoryKind::device).stats().peak_bytes);
  };
  const double short_ = peak(512), long_ = peak(4096);
  INFO(short_ << " and " << long_ << " bytes");
  CHECK(long_ <= 10 * short_);
}

TEST_CASE("an index outside the table is a DataError with row and value") {
  const auto device = cpu();
  const Tensor table = Tensor::zeros({5, 2}, DType::f32, *device);
  for (const double bad : {7.0, -1.0, 5.0}) {
    const Tensor i = Tensor::from({0, 1, 2, 3, bad, 4}, {3, 2}, DType::i32, *device);
    CHECK_THROWS_WITH(embedding(i, table), Contains("index of row 2") &&
                                               Contains(std::to_string(static_cast<int>(bad))) &&
                                               Contains("[0, 5)"));
    CHECK_THROWS_AS(embedding(i, table), DataError);
  }
}

TEST_CASE("a table used as embedding and as head gets the sum of both gradients") {
  const auto device = cpu();
  const Values table = sample_values(7 * 4), direction = sample_values(6 * 7, 1.0, 5);
  const Tensor indices = Tensor::from({3, 1, 3, 0, 6, 3}, {6}, DType::i32, *device);
  const auto gradient = [&](bool head, bool rows) {
    Tape tape;
    const Scope scope({.tape = &tape});
    const Tensor plain = Tensor::from(table, {7, 4}, DType::f64, *device), leaf = tape.leaf(plain);
    const Tensor logits = linear(embedding(indices, rows ? leaf : plain), head ? leaf : plain, {});
    tape.backward(sum(mul(logits, Tensor::from(direction, {6, 7}, DType::f64, *device))));
    return tape.grad(leaf).to_vector();
  };
  const Values both = gradient(true, true), head = gradient(true, false),
               rows = gradient(false, true);
  for (std::size_t i = 0; i < both.size(); ++i)
    CHECK(both[i] == Approx(head[i] + rows[i]).margin(1e-14));
  CHECK(std::fabs(rows[2 * 4]) == 0);  // nobody asked for row 2
}

TEST_CASE("layer norm of equal values is the bias, and keeps a NaN in its row") {
  const auto device = cpu();
  const Tensor w = Tensor::from({1, 2, 3}, {3}, DType::f32, *device),
               b = Tensor::from({4, 5, 6}, {3}, DType::f32, *device);
  const Values y =
      layer_norm(Tensor::from({9, 9, 9, 1, std::nan(""), 2, 1, 2, 3}, {3, 3}, DType::f32, *device),
                 w, b)
          .to_vector();
  CHECK(Values(y.begin(), y.begin() + 3) == Values{4, 5, 6});
  CHECK(nans(y, 3, 6) == 3);
  CHECK(nans(y, 6, 9) == 0);
}
