// SPDX-License-Identifier: MIT
// Stands in for device/cuda/cudnn_execute.cpp: cuDNN itself plans, for a GPU that is not here, and
// plain loops do what the plan says as one operation of the simulated stream.
#include <map>
#include <mutex>
#include <tuple>

#include "belfry/autodiff/ops/image/conv2d.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_backward.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/core/error.h"
#include "belfry/device/cuda/cudnn_plan.h"
#include "belfry/tests/cudnn/h200.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry {
namespace {

using Sizes = std::array<std::size_t, 3>;  // elements of x, weight and y

Sizes sizes_of(const ConvShape& s) {
  return {conv_x_bytes(s) / sizeof(float), conv_weight_bytes(s) / sizeof(float),
          conv_y_bytes(s) / sizeof(float)};
}

std::size_t result_of(ConvPass pass) {
  return pass == ConvPass::forward ? 2 : pass == ConvPass::backward_data ? 0 : 1;
}

void loops(const ConvProblem& p, const std::array<float*, 3>& a, const float* bias) {
  const ConvForward<float> forward{p.shape, a[0], a[1], bias, a[2]};
  const ConvBackwardData<float> data{p.shape, a[2], a[1], a[0]};
  const ConvBackwardWeights<float> weights{p.shape, a[0], a[2], a[1]};
  switch (p.pass) {
    case ConvPass::forward:
      return host_rows<ConvForward<float>>(&forward, 0, conv_forward_rows(p.shape));
    case ConvPass::backward_data:
      return host_rows<ConvBackwardData<float>>(&data, 0, conv_backward_data_rows(p.shape));
    case ConvPass::backward_weights:
      return host_rows<ConvBackwardWeights<float>>(&weights, 0,
                                                   conv_backward_weights_rows(p.shape));
  }
}

// Reads and writes bf16, adds in f32.
void rounded_loops(const ConvProblem& p, const std::array<void*, 3>& arrays) {
  const Sizes sizes = sizes_of(p.shape);
  const std::size_t result = result_of(p.pass);
  std::array<std::vector<float>, 3> wide;
  for (std::size_t i = 0; i < 3; ++i) {
    wide[i].resize(sizes[i]);
    const auto* narrow = static_cast<const BFloat16*>(arrays[i]);
    for (std::size_t k = 0; k < sizes[i] && i != result; ++k)
      wide[i][k] = static_cast<float>(narrow[k]);
  }
  loops(p, {wide[0].data(), wide[1].data(), wide[2].data()}, nullptr);
  auto* out = static_cast<BFloat16*>(arrays[result]);
  for (std::size_t k = 0; k < sizes[result]; ++k) out[k] = BFloat16(wide[result][k]);
}

}  // namespace

ConvPlan plan_convolution(CudaDevice&, const ConvProblem& problem, std::size_t budget) {
  static std::mutex mutex;
  static const CudnnTarget target = target_of_properties(test::kH200);
  static std::map<std::tuple<std::string, std::int64_t, bool, std::size_t>, ConvPlan> plans;
  const std::lock_guard lock(mutex);
  ConvPlan& plan = plans[{text(problem), problem.shape.bias, problem.aligned, budget}];
  if (plan.own == nullptr) plan = plan_convolution(target, problem, budget);
  return plan;
}

void execute(CudaDevice&, cudaStream_t stream, const ConvPlan& plan, const ConvPointers& p) {
  const ConvProblem& problem = plan.problem;
  const bool bf16 = problem.precision == Precision::bf16;
  const std::array<void*, 3> arrays{p.x, p.weight, p.y};
  const Sizes sizes = sizes_of(problem.shape);
  const float* bias = plan.adds_bias ? p.bias : nullptr;
  Touches touches;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t bytes = sizes[i] * (bf16 ? sizeof(BFloat16) : sizeof(float));
    if (i == result_of(problem.pass))
      touches.writes(arrays[i], bytes);
    else
      touches.reads(arrays[i], bytes);
  }
  if (bias != nullptr)
    touches.reads(bias, static_cast<std::size_t>(problem.shape.out) * sizeof(float));
  if (plan.workspace != 0) touches.writes(p.workspace, plan.workspace);
  const cudaError_t code = sim::submit(stream, "cudnnBackendExecute", touches, [=] {
    if (bf16) return rounded_loops(problem, arrays);
    loops(problem,
          {static_cast<float*>(arrays[0]), static_cast<float*>(arrays[1]),
           static_cast<float*>(arrays[2])},
          bias);
  });
  if (code != cudaSuccess)
    throw DeviceError(
        ErrorText{.what = text(problem) + " failed", .found = cudaGetErrorName(code)});
}

}  // namespace belfry
