// SPDX-License-Identifier: MIT
// CPU towers with precision = "bf16".
#include <algorithm>
#include <cmath>

#include "belfry/autodiff/ops/image/conv2d.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/matrix/matmul.h"
#include "belfry/device/context.h"
#include "belfry/device/cpu/onednn_internal.h"
#include "belfry/device/cpu/precision.h"
#include "belfry/device/half.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/contract/op_runs.h"

using namespace belfry;
using contract::differentiate;
using contract::Gradients;
using contract::Values;

namespace {

double largest(const Values& v) {
  double out = 0;
  for (const double x : v) out = std::max(out, std::abs(x));
  return out;
}

double distance(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

OpCase rounded(OpCase c) {
  for (SampleInput& in : c.inputs)
    for (double& x : in.values)
      x = static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x))));
  return c;
}

OpCase of(std::vector<SampleInput> inputs, Tensor (*run)(std::span<const Tensor>)) {
  OpCase c;
  c.inputs = std::move(inputs);
  c.run = run;
  return c;
}

}  // namespace

TEST_CASE("bf16 on a CPU: products and convolutions multiply rounded numbers and add in f32") {
  if (const std::string fault = cpu_precision_fault(Precision::bf16); !fault.empty()) {
    WARN("skipped: " << fault);
    return;
  }
  const OpCase cases[] = {of({sample({33, 48}), sample({40, 48}), sample({40})},
                             [](std::span<const Tensor> t) { return linear(t[0], t[1], t[2]); }),
                          of({sample({3, 17, 32}), sample({3, 32, 24})},
                             [](std::span<const Tensor> t) { return matmul(t[0], t[1]); }),
                          of({sample({2, 9, 9, 32}), sample({32, 3, 3, 32}), sample({32})},
                             [](std::span<const Tensor> t) { return conv2d(t[0], t[1], t[2]); })};
  const auto plain = make_cpu_device(0, 1, Executor::in_place);
  Context context({.towers = "cpu:1", .threads_per_tower = 1, .precision = Precision::bf16});
  CHECK(context.describe() == "1 tower on cpu, 1 thread each, bf16");
  Device& narrow = context.device(0);
  for (const OpCase& c : cases) {
    const Gradients want = differentiate(c, DType::f64, *plain),
                    got = differentiate(c, DType::f32, narrow),
                    exact = differentiate(rounded(c), DType::f64, *plain),
                    same = differentiate(rounded(c), DType::f32, narrow);
    INFO(want.output.size() << " results");
    CHECK(distance(same.output, exact.output) <= 1e-5 * largest(exact.output));
    CHECK(distance(got.output, want.output) >= 1e-4 * largest(want.output));
    CHECK(distance(got.output, want.output) <= 1e-2 * largest(want.output));
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      CHECK(distance(got.inputs[i], want.inputs[i]) <= 1e-2 * largest(want.inputs[i]));
  }
  for (const std::string& line : narrow.slot<OneDnn>().implementations()) {
    INFO(line);
    CHECK(line.find("bf16") != line.npos);
  }
}

TEST_CASE("a precision that the CPU has not is a ConfigError") {
  CHECK_THROWS_WITH(Context({.towers = "cpu:1", .precision = Precision::tf32}),
                    Catch::Contains("precision = \"tf32\" needs towers on GPUs"));
}
