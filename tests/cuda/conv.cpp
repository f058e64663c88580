// SPDX-License-Identifier: MIT
// Convolutions of the plug-in without cuDNN: its one seam does plain loops on the simulated GPU.
#include <vector>

#include "belfry/autodiff/ops/image/conv2d.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_backward.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/device/cuda/check.h"
#include "belfry/device/cuda/conv_plan.h"
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry {
namespace {

constexpr std::size_t kWorkspace = 256;

// An array of a pass in f32, whatever it is stored in.
std::vector<float> loaded(const void* p, std::size_t n, bool narrow) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = narrow ? static_cast<float>(static_cast<const BFloat16*>(p)[i])
                    : static_cast<const float*>(p)[i];
  return out;
}

void store(const std::vector<float>& v, void* p, bool narrow) {
  for (std::size_t i = 0; i < v.size(); ++i)
    if (narrow)
      static_cast<BFloat16*>(p)[i] = BFloat16(v[i]);
    else
      static_cast<float*>(p)[i] = v[i];
}

template <class F>
void loops(const F& f, std::size_t rows) {
  host_rows<F>(&f, 0, rows);
}

void convolve(const ConvPlan& plan, const ConvPointers& p) {
  const ConvShape& s = plan.problem.shape;
  const bool narrow = plan.problem.precision == Precision::bf16;
  const std::size_t sizes[3] = {conv_x_bytes(s) / 4, conv_weight_bytes(s) / 4, conv_y_bytes(s) / 4};
  std::vector<float> x = loaded(p.x, sizes[0], narrow), w = loaded(p.weight, sizes[1], narrow),
                     y = loaded(p.y, sizes[2], narrow);
  switch (plan.problem.pass) {
    case ConvPass::forward:
      loops(ConvForward<float>{s, x.data(), w.data(), plan.adds_bias ? p.bias : nullptr, y.data()},
            conv_forward_rows(s));
      return store(y, p.y, narrow);
    case ConvPass::backward_data:
      loops(ConvBackwardData<float>{s, y.data(), w.data(), x.data()}, conv_backward_data_rows(s));
      return store(x, p.x, narrow);
    case ConvPass::backward_weights:
      loops(ConvBackwardWeights<float>{s, x.data(), y.data(), w.data()},
            conv_backward_weights_rows(s));
      return store(w, p.weight, narrow);
  }
}

}  // namespace

ConvPlan plan_convolution(CudaDevice&, const ConvProblem& problem, std::size_t) {
  ConvPlan plan{.problem = problem, .workspace = kWorkspace};
  plan.adds_bias = problem.pass == ConvPass::forward && problem.shape.bias != 0 &&
                   problem.precision != Precision::bf16;
  return plan;
}

void execute(CudaDevice& device, cudaStream_t stream, const ConvPlan& plan,
             const ConvPointers& p) {
  const ConvShape& s = plan.problem.shape;
  const std::size_t bytes = plan.problem.precision == Precision::bf16 ? 2 : 4;
  void* const arrays[3] = {p.x, p.weight, p.y};
  const std::size_t sizes[3] = {conv_x_bytes(s) / 4 * bytes, conv_weight_bytes(s) / 4 * bytes,
                                conv_y_bytes(s) / 4 * bytes};
  const int result = plan.problem.pass == ConvPass::forward         ? 2
                     : plan.problem.pass == ConvPass::backward_data ? 0
                                                                    : 1;
  Touches touches;
  for (int i = 0; i < 3; ++i)
    if (i == result)
      touches.writes(arrays[i], sizes[i]);
    else
      touches.reads(arrays[i], sizes[i]);
  if (plan.adds_bias) touches.reads(p.bias, static_cast<std::size_t>(s.out) * sizeof(float));
  touches.writes(p.workspace, plan.workspace);
  check_cuda(sim::submit(stream, text(plan.problem), touches, [plan, p] { convolve(plan, p); }),
             "cudnnBackendExecute", device.gpu());
}

}  // namespace belfry
