// SPDX-License-Identifier: MIT
// Winograd's convolutions beside plain loops, in one chunk of tiles and several, with all paddings,
// tiles that hang over, and more channels than a core's L2 holds; on one thread and two.
#include "belfry/autodiff/ops/image/winograd_internal.h"
#include "belfry/tests/autodiff/convolutions.h"

namespace belfry {
namespace {

using namespace convolutions;

// The L2 error over the L2 norm.
double error_of(const Floats& got, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = static_cast<double>(got[i]) - expected[i];
    error += e * e;
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace

TEST_CASE("Winograd's convolutions agree with plain loops", "[isa]") {
  if (instruction_set() == InstructionSet::baseline) {
    WARN("skipped: the baseline instruction set leaves them to oneDNN");
    return;
  }
  const ConvShape shapes[] = {
      shape(48, 4, 4, 16, 16, 3, 3, 1),  shape(12, 9, 14, 32, 16, 3, 3, 1),
      shape(20, 10, 8, 16, 48, 3, 3, 0), shape(30, 6, 6, 16, 32, 3, 3, 2),
      shape(2, 33, 30, 48, 16, 3, 3, 1), shape(9, 16, 16, 160, 112, 3, 3, 1)};
  for (const ConvShape& s : shapes) {
    INFO(s.n << " x " << s.h << " x " << s.w << " x " << s.in << " to " << s.out << ", padding "
             << s.padding);
    const Floats x = random(s.n * s.h * s.w * s.in, 1), dy = random(s.n * s.oh * s.ow * s.out, 2),
                 w = random(s.out * 9 * s.in, 3), b = random(s.out, 4);
    check_close(
        on_threads(dy.size(),
                   [&](float* y) { return winograd_forward(s, x.data(), w.data(), b.data(), y); }),
        plain(dy.size(), conv_forward_rows(s),
              ConvForward<float>{s, x.data(), w.data(), b.data(), nullptr},
              &ConvForward<float>::y));
    check_close(
        on_threads(x.size(),
                   [&](float* dx) { return winograd_backward_data(s, dy.data(), w.data(), dx); }),
        plain(x.size(), conv_backward_data_rows(s),
              ConvBackwardData<float>{s, dy.data(), w.data(), nullptr},
              &ConvBackwardData<float>::dx));
    check_close(on_threads(w.size(),
                           [&](float* dw) {
                             return winograd_backward_weights(s, x.data(), dy.data(), dw);
                           }),
                plain(w.size(), conv_backward_weights_rows(s),
                      ConvBackwardWeights<float>{s, x.data(), dy.data(), nullptr},
                      &ConvBackwardWeights<float>::dweight));
  }
}

// The points were chosen for this: with 0, +-1, +-2 it is 1.7e-6.
TEST_CASE("Winograd's rounding is at most three times that of sums", "[isa]") {
  if (instruction_set() == InstructionSet::baseline) return;
  const ConvShape s = shape(4, 16, 16, 64, 16, 3, 3, 1);
  const Floats x = random(s.n * s.h * s.w * s.in, 1), w = random(s.out * 9 * s.in, 3);
  const std::vector<double> exact_x(x.begin(), x.end()), exact_w(w.begin(), w.end());
  std::vector<double> exact(static_cast<std::size_t>(s.n * s.oh * s.ow * s.out));
  const ConvForward<double> loops{s, exact_x.data(), exact_w.data(), nullptr, exact.data()};
  host_rows<ConvForward<double>>(&loops, 0, conv_forward_rows(s));
  Floats y(exact.size());
  REQUIRE(winograd_forward(s, x.data(), w.data(), nullptr, y.data()));
  const double sums = error_of(
      plain(exact.size(), conv_forward_rows(s),
            ConvForward<float>{s, x.data(), w.data(), nullptr, nullptr}, &ConvForward<float>::y),
      exact);
  CHECK(error_of(y, exact) <= 3 * sums);
  CHECK(error_of(y, exact) <= 1.2e-6);
}

TEST_CASE("convolutions that Winograd's tiles do not fit are left to oneDNN", "[isa]") {
  float none = 0;
  const auto taken = [&](ConvShape s, std::int64_t stride = 1) {
    s.stride = stride;
    return winograd_forward(s, &none, &none, nullptr, &none);
  };
  CHECK_FALSE(taken(shape(64, 8, 8, 24, 16, 3, 3, 1)));     // channels
  CHECK_FALSE(taken(shape(64, 8, 8, 16, 16, 5, 5, 2)));     // taps
  CHECK_FALSE(taken(shape(64, 9, 9, 16, 16, 3, 3, 1), 2));  // stride
  CHECK_FALSE(taken(shape(11, 8, 8, 16, 16, 3, 3, 1)));     // few tiles
  CHECK_FALSE(taken(shape(99, 5, 5, 16, 16, 3, 3, 1)));     // tiles that are mostly empty
  CHECK_FALSE(taken(shape(64, 8, 8, 16, 16, 3, 3, 3)));     // padding beyond the taps
}

}  // namespace belfry
