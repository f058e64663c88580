// SPDX-License-Identifier: MIT
#include "belfry/optim/rules/sgd.kernel.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/optim/rule_fixture.h"

namespace belfry {

TEST_CASE("F36: the averaging ramps up to its decay", "[optim]") {
  CHECK(ema_decay(0.999, 0) == Approx(0.1));
  CHECK(ema_decay(0.999, 1) == Approx(2.0 / 11));
  CHECK(ema_decay(0.999, 90) == Approx(0.91));
  CHECK(ema_decay(0.9, 80) == Approx(0.9));
  CHECK(ema_decay(0.9, 81) == 0.9);
  CHECK(ema_decay(0.9999, 1e6) == 0.9999);
}

namespace {

// An update of the average alone: the rate is 0.
void average(Device& device, std::vector<float>& shadow, const std::vector<float>& param,
             const UpdateScalars& scalars, const std::vector<SegmentRef>& segments) {
  std::vector<float> same = param;
  launch_update(device.main(),
                {.rows = segments.size(),
                 .segments = segments.data(),
                 .size = param.size(),
                 .param = same.data(),
                 .grad = param.data(),
                 .scalars = &scalars,
                 .variables = 1,
                 .ema = shadow.data(),
                 .ema_decay = 0.8},
                SgdUpdate{});
  device.synchronize();
}

}  // namespace

TEST_CASE("the shadow follows the formula in double to 1e-6, in pieces and lazily", "[optim]") {
  const std::size_t n = 101;
  const std::vector<SegmentRef> whole = {{0, n, 0}}, parts = {{0, 37, 0}, {37, n - 37, 0}};
  std::vector<float> initial = test::normals(n, 0);
  std::vector<float> shadow = initial, pieces = initial, lazy_shadow = initial;
  std::vector<double> reference(initial.begin(), initial.end());
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const auto lazy = make_cpu_device(0, 1, Executor::lazy);
  for (int update = 1; update <= 50; ++update) {
    const std::vector<float> p = test::normals(n, static_cast<std::uint32_t>(update));
    const UpdateScalars scalars{.step = static_cast<float>(update)};
    average(*device, shadow, p, scalars, whole);
    average(*device, pieces, p, scalars, parts);
    average(*lazy, lazy_shadow, p, scalars, whole);
    average(*device, shadow, p, {.step = 1, .active = 0}, whole);  // changes nothing
    const double d = std::min(0.8, (1.0 + update) / (10.0 + update));
    for (std::size_t i = 0; i < n; ++i) reference[i] -= (1 - d) * (reference[i] - p[i]);
  }
  CHECK(test::distance(shadow, reference) < 1e-6);
  CHECK(test::same_bits(shadow, pieces));
  CHECK(test::same_bits(shadow, lazy_shadow));
}

}  // namespace belfry
