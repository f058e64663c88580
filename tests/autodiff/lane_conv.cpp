// SPDX-License-Identifier: MIT
// Convolutions of few channels, 16 images in a register, beside plain loops; on one thread and two.
#include "belfry/autodiff/ops/image/lane_conv_internal.h"
#include "belfry/tests/autodiff/convolutions.h"

namespace belfry {
namespace {

using namespace convolutions;

}  // namespace

TEST_CASE("convolutions of few channels agree with plain loops on odd shapes", "[isa]") {
  if (instruction_set() == InstructionSet::baseline) {
    WARN("skipped: the baseline instruction set leaves them to oneDNN");
    return;
  }
  const ConvShape shapes[] = {shape(16, 6, 6, 1, 1, 1, 1, 0),  shape(17, 9, 13, 1, 6, 5, 5, 2),
                              shape(48, 5, 7, 2, 7, 3, 2, 1),  shape(33, 7, 3, 6, 5, 2, 3, 0),
                              shape(20, 4, 4, 7, 4, 4, 4, 3),  shape(31, 12, 10, 5, 3, 3, 5, 2),
                              shape(16, 11, 29, 2, 2, 5, 3, 1)};
  for (const ConvShape& s : shapes) {
    INFO(s.n << " x " << s.h << " x " << s.w << " x " << s.in << " to " << s.out << ", " << s.kh
             << " x " << s.kw << ", padding " << s.padding);
    const Floats x = random(s.n * s.h * s.w * s.in, 1), dy = random(s.n * s.oh * s.ow * s.out, 2),
                 w = random(s.out * s.kh * s.kw * s.in, 3), b = random(s.out, 4);
    check_close(
        on_threads(dy.size(),
                   [&](float* y) { return lane_conv_forward(s, x.data(), w.data(), b.data(), y); }),
        plain(dy.size(), conv_forward_rows(s),
              ConvForward<float>{s, x.data(), w.data(), b.data(), nullptr},
              &ConvForward<float>::y));
    check_close(
        on_threads(x.size(),
                   [&](float* dx) { return lane_conv_backward_data(s, dy.data(), w.data(), dx); }),
        plain(x.size(), conv_backward_data_rows(s),
              ConvBackwardData<float>{s, dy.data(), w.data(), nullptr},
              &ConvBackwardData<float>::dx));
    if (s.in > 2) continue;
    check_close(on_threads(w.size(),
                           [&](float* dw) {
                             return lane_conv_backward_weights(s, x.data(), dy.data(), dw);
                           }),
                plain(w.size(), conv_backward_weights_rows(s),
                      ConvBackwardWeights<float>{s, x.data(), dy.data(), nullptr},
                      &ConvBackwardWeights<float>::dweight));
  }
}

TEST_CASE("NaN stays in its image where images share a register", "[isa]") {
  if (instruction_set() == InstructionSet::baseline) return;
  const ConvShape s = shape(18, 5, 5, 1, 3, 3, 3, 1);
  Floats x = random(s.n * 25, 1), y(static_cast<std::size_t>(s.n * 75));
  const Floats w = random(27, 2), b = random(3, 3);
  x[7 * 25 + 12] = NAN;
  REQUIRE(lane_conv_forward(s, x.data(), w.data(), b.data(), y.data()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / 15 % 5, column = i / 3 % 5;
    const bool near = i / 75 == 7 && row >= 1 && row <= 3 && column >= 1 && column <= 3;
    CHECK(std::isnan(y[i]) == near);
  }
}

TEST_CASE("convolutions that oneDNN does well are left to it", "[isa]") {
  float none = 0;
  const auto taken = [&](ConvShape s, std::int64_t stride = 1) {
    s.stride = stride;
    return lane_conv_forward(s, &none, &none, nullptr, &none);
  };
  CHECK_FALSE(taken(shape(15, 6, 6, 1, 6, 3, 3, 1)));     // few images
  CHECK_FALSE(taken(shape(64, 6, 6, 1, 8, 3, 3, 1)));     // channels
  CHECK_FALSE(taken(shape(64, 7, 7, 1, 6, 3, 3, 1), 2));  // stride
  CHECK_FALSE(taken(shape(64, 6, 6, 1, 6, 3, 3, 3)));     // padding beyond the kernel
  CHECK_FALSE(taken(shape(64, 6, 600, 1, 6, 3, 3, 1)));   // long rows
}

}  // namespace belfry
