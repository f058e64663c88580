// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/scope.h"
#include "belfry/autodiff/tape.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

namespace belfry {

TEST_CASE("label smoothing: loss and gradient by hand", "[ops]") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  // Probabilities 1/2, 1/4, 1/4; smoothed by 0.3 the target of label 0 is 0.8, 0.1, 0.1.
  const double two = std::log(2.0);
  const Tensor z = Tensor::from({two, 0, 0, 5, 5, 5}, {2, 3}, DType::f64, *device);
  const Tensor y = Tensor::from({0, -1}, {2}, DType::i32, *device);
  Tape tape;
  Scope scope({.tape = &tape});
  const Tensor logits = tape.leaf(z);
  const Loss loss = cross_entropy(logits, y, -1, 0.3);
  tape.backward(loss.mean);
  CHECK(loss.weight.item() == 1);
  CHECK(loss.mean.item() == Approx(0.8 * two + 0.2 * 2 * two).epsilon(1e-14));
  const std::vector<double> g = tape.grad(logits).to_vector(), want = {-0.3, 0.15, 0.15, 0, 0, 0};
  for (std::size_t i = 0; i < 6; ++i) CHECK(g[i] == Approx(want[i]).margin(1e-14));
}

TEST_CASE("label smoothing: 0 is the plain loss to the bit, 1 and NaN are refused", "[ops]") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const Tensor z = Tensor::from({1, -2, 3, 0.5}, {2, 2}, DType::f32, *device);
  const Tensor y = Tensor::from({1, 0}, {2}, DType::i32, *device);
  CHECK(cross_entropy(z, y, {}, 0).mean.item() == cross_entropy(z, y).mean.item());
  CHECK(cross_entropy(z, y, {}, 0.5).mean.item() != cross_entropy(z, y).mean.item());
  for (const double bad : {1.0, -0.1, std::nan("")})
    CHECK_THROWS_AS(cross_entropy(z, y, {}, bad), GradientError);
}

}  // namespace belfry
