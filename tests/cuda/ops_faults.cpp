// SPDX-License-Identifier: MIT
// What simulated GPUs alone can show of products: how many there are, and each call failing.
#include <set>

#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/core/error.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/simcuda/simcuda.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

void product(Device& gpu) {
  gpu.bind_thread();
  const Tensor x = Tensor::zeros({8, 32}, DType::f32, gpu),
               w = Tensor::zeros({16, 32}, DType::f32, gpu),
               b = Tensor::zeros({16}, DType::f32, gpu);
  linear(x, w, b).to_vector();
}

}  // namespace

TEST_CASE("a product on a GPU is one of cuBLASLt's", "[cuda-sim]") {
  Gpus gpus(1);
  product(*gpus.device());
  CHECK(gpus.machine().counts().matmuls == 1);
}

TEST_CASE("a product that fails names its call, its shape and the GPU", "[cuda-sim]") {
  std::set<std::string> calls;
  std::uint64_t failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    Gpus gpus(1, {.fail_call = n});
    std::string message;
    try {
      product(*gpus.device());
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
