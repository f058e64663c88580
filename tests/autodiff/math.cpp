// SPDX-License-Identifier: MIT
// Elementary functions of f32 kernels beside libm in double, over all magnitudes. Here they round
// twice in multiply_add; tests/contract/instruction_sets.cpp runs them where it rounds once.
#include <cmath>
#include <cstring>

#include "belfry/autodiff/ops/elementwise/math.kernel.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls fn(x) for about 400,000 floats in [low, high], spread over their bit patterns.
template <class F>
void for_floats(float low, float high, const F& fn) {
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 10007) {
    const float x = bits_float(static_cast<std::uint32_t>(bits));
    if (x >= low && x <= high) fn(x);
  }
}

template <class F, class G>
double worst_relative(float low, float high, const F& got, const G& expected) {
  double worst = 0;
  for_floats(low, high, [&](float x) {
    const double e = expected(static_cast<double>(x));
    if (std::fabs(e) < 1.2e-38) return;  // no normal f32
    const double error = std::fabs(static_cast<double>(got(x)) - e) / std::fabs(e);
    if (!(error <= worst)) worst = error;
  });
  return worst;
}

}  // namespace

TEST_CASE("exp, tanh and sigmoid are within 5e-7 of double") {
  const auto exp32 = [](float x) { return exp_of(x); };
  const auto tanh32 = [](float x) { return tanh_of(x); };
  CHECK(worst_relative(-86.9f, 88.72f, exp32, [](double x) { return std::exp(x); }) < 1.2e-7);
  CHECK(worst_relative(-1e30f, 1e30f, tanh32, [](double x) { return std::tanh(x); }) < 4.5e-7);
  CHECK(worst_relative(
            -86.9f, 1e30f, [](float x) { return sigmoid_of(x); },
            [](double x) { return 1 / (1 + std::exp(-x)); }) < 2e-7);
  for_floats(-1e30f, 1e30f, [](float x) {
    if (!(std::fabs(tanh_of(x)) <= 1)) FAIL("tanh of " << x << " is " << tanh_of(x));
  });
}

TEST_CASE("gelu and its slope are within 5e-7 of double, beside their largest value") {
  double value = 0, slope = 0;
  for_floats(-100, 100, [&](float x) {
    const double d = static_cast<double>(x), scale = std::max(1.0, std::fabs(d));
    value = std::max(value, std::fabs(static_cast<double>(gelu_of(x)) - gelu_of(d)) / scale);
    slope = std::max(slope, std::fabs(static_cast<double>(gelu_slope(x)) - gelu_slope(d)));
  });
  CHECK(value < 5e-7);
  CHECK(slope < 1e-6);
}

TEST_CASE("infinities have their limits, NaN passes through") {
  CHECK(exp_of(-kInf) == 0);
  CHECK(exp_of(-88.f) == 0);
  CHECK(exp_of(kInf) == kInf);
  CHECK(exp_of(88.8f) == kInf);
  CHECK(exp_of(0.f) == 1);
  CHECK(sigmoid_of(-kInf) == 0);
  CHECK(sigmoid_of(kInf) == 1);
  CHECK(tanh_of(kInf) == Approx(1).epsilon(5e-7));
  CHECK(tanh_of(-kInf) == Approx(-1).epsilon(5e-7));
  CHECK(tanh_of(0.f) == 0);
  CHECK(std::fabs(gelu_of(-kInf)) < 1e-26);
  CHECK(gelu_of(kInf) == kInf);
  CHECK(std::fabs(gelu_of(-1e30f)) < 1e-26);
  CHECK(std::fabs(gelu_slope(-kInf)) < 1e-26);
  CHECK(gelu_slope(kInf) == 1);
  CHECK(gelu_slope(1e30f) == 1);
  for (const float v :
       {exp_of(kNan), tanh_of(kNan), sigmoid_of(kNan), gelu_of(kNan), gelu_slope(kNan)})
    CHECK(std::isnan(v));
}

}  // namespace belfry
