// SPDX-License-Identifier: MIT
// Every op on a GPU beside the CPU. On a simulated one: by the kernels' host bodies, a simulated
// cuBLASLt and cuDNN's plans.
#include <algorithm>
#include <cmath>
#include <set>

#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/matrix/matmul.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::contract;
using namespace belfry::sim;

namespace {

// Returns the largest error; all of them show, not the first alone.
double compare_values(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double scale = 1, worst = 0;
  for (const double w : want) scale = std::max(scale, std::fabs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - want[i]);
    if (!(error <= worst)) worst = error;
  }
  INFO("largest error " << worst << " of " << scale);
  CHECK(worst <= tolerance * scale);
  return worst;
}

// In bf16 a ReLU near 0 may fall on the other side, which moves a gradient by a whole term.
double tolerance_of(Precision precision) {
  return precision == Precision::f32 ? 1e-5 : precision == Precision::tf32 ? 3e-3 : 7e-2;
}

const std::vector<std::string> kNothing;
const std::set<std::string> kOfLibraries = {"conv2d", "linear", "matmul"};

struct Compared {
  std::size_t cases = 0;
  double largest = 0;  // error
};

Compared compare(bool of_libraries, Precision precision, double tolerance) {
  const Registry registry = builtin();
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  Gpus gpus(1, {.seed = 1 + static_cast<std::uint64_t>(precision)}, precision);
  Compared out;
  {
    const std::unique_ptr<Device> gpu = gpus.device();
    gpu->bind_thread();
    for (const auto& [name, entry] : registry.table<OpEntry>()) {
      if ((kOfLibraries.count(name) != 0) != of_libraries) continue;
      for (const OpCase& c : entry.cases()) {
        INFO(name << ", case " << c.label << ", " << name_of(precision));
        const Gradients want = differentiate(c, DType::f32, *cpu),
                        got = differentiate(c, DType::f32, *gpu);
        out.largest = std::max(out.largest, compare_values(got.output, want.output, tolerance));
        REQUIRE(got.inputs.size() == want.inputs.size());
        for (std::size_t i = 0; i < got.inputs.size(); ++i)
          compare_values(got.inputs[i], want.inputs[i], tolerance);
        ++out.cases;
      }
    }
  }
  CHECK(gpus.faults() == kNothing);
  return out;
}

}  // namespace

TEST_CASE("every op of Belfry's own kernels gives on a GPU what it gives on the CPU",
          "[cuda][ops][short]") {
  CHECK(compare(false, Precision::f32, 1e-5).cases > 60);
}

TEST_CASE("products and convolutions give on a GPU what they give on the CPU, in every precision",
          "[cuda][ops]") {
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16}) {
    const Compared got = compare(true, precision, tolerance_of(precision));
    CHECK(got.cases > 20);
    CHECK((got.largest > 1e-4) == (precision != Precision::f32));  // they do round
    WARN(name_of(precision) << ": " << got.cases << " cases, largest error " << got.largest);
  }
}

TEST_CASE("every misuse of an op is the same GradientError on a GPU", "[cuda][ops]") {
  const Registry registry = builtin();
  Gpus gpus(1);
  const std::unique_ptr<Device> gpu = gpus.device();
  gpu->bind_thread();
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpMisuse& misuse : entry.misuses()) {
      INFO(name << ", misuse " << misuse.label);
      CHECK_THROWS_AS(misuse.run(*gpu), GradientError);
    }
}

TEST_CASE("products of arrays that are aligned to their elements only", "[cuda][ops]") {
  Gpus gpus(1, {.seed = 5});
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  const std::vector<double> x = sample_values(9 * 7), w = sample_values(5 * 7, 1.0, 2),
                            b = sample_values(5, 1.0, 3);
  const auto run = [&](Device& device, std::int64_t first) {
    const Tensor rows = Tensor::from(x, {9, 7}, DType::f32, device).rows(first, 4);
    return linear(rows, Tensor::from(w, {5, 7}, DType::f32, device),
                  Tensor::from(b, {5}, DType::f32, device))
        .to_vector();
  };
  {
    const std::unique_ptr<Device> gpu = gpus.device();
    gpu->bind_thread();
    for (const std::int64_t first : {0, 1, 2, 4, 5}) {
      INFO("from row " << first);
      compare_values(run(*gpu, first), run(*cpu, first), 1e-5);
    }
  }
  CHECK(gpus.faults() == kNothing);
}
