// SPDX-License-Identifier: MIT
// Every op on a simulated GPU, by the plug-in's own kernels' host bodies, cuBLASLt and cuDNN's
// plans, beside the CPU.
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

// Returns the largest error.
double require_close(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double scale = 1, worst = 0;
  for (const double w : want) scale = std::max(scale, std::fabs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - want[i]);
    if (!(error <= worst)) worst = error;
  }
  INFO("largest error " << worst << " of " << scale);
  REQUIRE(worst <= tolerance * scale);
  return worst;
}

// In bf16 a ReLU near 0 may fall on the other side, which moves a gradient by a whole term.
double tolerance_of(Precision precision) {
  return precision == Precision::f32 ? 1e-5 : precision == Precision::tf32 ? 3e-3 : 5e-2;
}

const std::vector<std::string> kNothing;

}  // namespace

TEST_CASE("every op gives on a GPU what it gives on the CPU, in every precision", "[cuda-sim]") {
  const Registry registry = builtin();
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  const std::set<std::string> of_libraries = {"conv2d", "linear", "matmul"};
  std::size_t cases = 0;
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16}) {
    Gpus gpus(1, {.seed = 1 + static_cast<std::uint64_t>(precision)}, precision);
    double largest = 0;  // error of a library's op
    {
      const std::unique_ptr<Device> gpu = gpus.device();
      gpu->bind_thread();
      for (const auto& [name, entry] : registry.table<OpEntry>()) {
        const double tolerance = of_libraries.count(name) != 0 ? tolerance_of(precision) : 1e-5;
        for (const OpCase& c : entry.cases()) {
          INFO(name << ", case " << c.label << ", " << name_of(precision));
          const Gradients want = differentiate(c, DType::f32, *cpu),
                          got = differentiate(c, DType::f32, *gpu);
          const double error = require_close(got.output, want.output, tolerance);
          if (tolerance > 1e-5) largest = std::max(largest, error);
          REQUIRE(got.inputs.size() == want.inputs.size());
          for (std::size_t i = 0; i < got.inputs.size(); ++i)
            require_close(got.inputs[i], want.inputs[i], tolerance);
          ++cases;
        }
      }
    }
    CHECK(gpus.machine().reports() == kNothing);
    CHECK(gpus.machine().leaks() == "");
    CHECK(gpus.machine().counts().matmuls > 20);
    CHECK((largest > 1e-4) == (precision != Precision::f32));  // they do round
  }
  CHECK(cases > 3 * 80);
}

TEST_CASE("every misuse of an op is the same GradientError on a GPU", "[cuda-sim]") {
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

TEST_CASE("products of arrays that are aligned to their elements only", "[cuda-sim]") {
  Gpus gpus(1, {.seed = 5});
  const std::unique_ptr<Device> gpu = gpus.device();
  gpu->bind_thread();
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  const std::vector<double> x = sample_values(9 * 7), w = sample_values(5 * 7, 1.0, 2),
                            b = sample_values(5, 1.0, 3);
  const auto run = [&](Device& device, std::int64_t first) {
    const Tensor rows = Tensor::from(x, {9, 7}, DType::f32, device).rows(first, 4);
    return linear(rows, Tensor::from(w, {5, 7}, DType::f32, device),
                  Tensor::from(b, {5}, DType::f32, device))
        .to_vector();
  };
  for (const std::int64_t first : {0, 1, 2, 4, 5}) {
    INFO("from row " << first);
    require_close(run(*gpu, first), run(*cpu, first), 1e-5);
  }
  CHECK(gpus.machine().reports() == kNothing);
}

TEST_CASE("a product that fails names its call, its shape and the GPU", "[cuda-sim]") {
  std::set<std::string> calls;
  std::uint64_t failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    Gpus gpus(1, {.fail_call = n});
    std::string message;
    try {
      const std::unique_ptr<Device> gpu = gpus.device();
      gpu->bind_thread();
      const Tensor x = Tensor::zeros({8, 32}, DType::f32, *gpu),
                   w = Tensor::zeros({16, 32}, DType::f32, *gpu),
                   b = Tensor::zeros({16}, DType::f32, *gpu);
      linear(x, w, b).to_vector();
    } catch (const DeviceError& e) {
      message = e.what();
    }
    if (gpus.machine().scheduler().failed_call().empty()) break;
    if (message.find("cublasLt") != 0) continue;
    INFO(message);
    ++failures;
    calls.insert(message.substr(0, message.find(' ')));
    CHECK(message.find("failed on cuda:0 for the product [8, 32] * [16, 32]^T + bias") !=
          std::string::npos);
    CHECK(message.find("CUBLAS_STATUS_INTERNAL_ERROR") != std::string::npos);
    CHECK(gpus.machine().leaks() == "");
  }
  CHECK(failures >= 12);
  for (const char* call : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmul",
                           "cublasLtMatrixLayoutCreate", "cublasLtMatmulAlgoGetHeuristic",
                           "cublasLtMatmulPreferenceCreate", "cublasLtMatmulDescSetAttribute"})
    CHECK(calls.count(call) == 1);
}
